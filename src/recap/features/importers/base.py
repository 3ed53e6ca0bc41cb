"""What importers share: entries found before anything is read, ids from names, checks with one sentence each."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from recap.core.errors import FeatureError
from recap.features.records import ImageFeatures

_NUMBER = re.compile(r"(?:^|[_-])(\d+)(?:\.\w+)?$")


class Names:
    """Turns what a file calls an image into its id: by file name in the corpus, else the number at its end."""

    def __init__(self, files: Mapping[int, str] | None = None) -> None:
        """Take image id -> file name of a corpus, or nothing."""
        self._by_stem = {Path(file).stem: image_id for image_id, file in (files or {}).items()}

    def image_id(self, name: str, where: str) -> int:
        """Return the id of ``name`` (``132417``, ``COCO_train2014_000000132417.jpg``).

        Raises:
            FeatureError: there is no number at its end, and no picture of the corpus has that name.
        """
        found = self._by_stem.get(Path(name).stem)
        if found is not None:
            return found
        match = _NUMBER.search(name)
        if match is None:
            raise FeatureError(
                f"{where}: {name[:80]!r} has no image id at its end and is no picture of a corpus; give the --corpus"
            )
        return int(match[1])


class Source(Protocol):
    """A file or folder of features whose images are known before they are read."""

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams that every image has, the main one first."""

    @property
    def ids(self) -> Callable[[], list[int]]:
        """Returns the ids of all images."""

    def read(self, image_id: int) -> ImageFeatures:
        """Return the features of one image."""


class Places:
    """Where each image's entry is; an image that has two entries is refused when the second is added."""

    def __init__(self) -> None:
        self._places: dict[int, Any] = {}

    def add(self, image_id: int, place: Any, where: str) -> None:
        """Remember an entry.

        Raises:
            FeatureError: the image has one already.
        """
        if image_id in self._places:
            raise FeatureError(f"{where}: image id {image_id} stands twice; remove one of the two")
        self._places[image_id] = place

    def __getitem__(self, image_id: int) -> Any:
        return self._places[image_id]

    def ids(self) -> list[int]:
        """Return all image ids."""
        return list(self._places)


def array_of(field: bytes, dtype: str, shape: Sequence[int], where: str) -> np.ndarray:
    """Return an array from base64 text; its bytes must be exactly those of ``shape``.

    Raises:
        FeatureError: no base64, or of another length.
    """
    try:
        content = base64.b64decode(field, validate=True)
    except (binascii.Error, ValueError) as error:
        raise FeatureError(f"{where}: bad base64 ({error}); the file is damaged, fetch it again") from error
    size = np.dtype(dtype).itemsize * int(np.prod(shape))
    if len(content) != size:
        raise FeatureError(
            f"{where}: holds {len(content)} bytes where {' x '.join(map(str, shape))} numbers of {dtype} take {size}; "
            "the file is truncated or of another form"
        )
    return np.frombuffer(content, dtype).reshape(*shape)


def width_of(field: bytes, rows: int, where: str) -> int:
    """Return how many float32 numbers each of ``rows`` vectors has, from the length of base64 text.

    Raises:
        FeatureError: the length is no multiple.
    """
    size = len(field) // 4 * 3 - field[-2:].count(b"=")
    if rows < 1 or len(field) % 4 or size < 4 * rows or size % (4 * rows):
        raise FeatureError(
            f"{where}: {size} bytes of features do not make {rows} vectors of float32; "
            "the file is truncated, damaged or of another form"
        )
    return size // (4 * rows)


def whole(field: bytes, name: str, where: str) -> int:
    """Return a field as a whole number of zero or more.

    Raises:
        FeatureError: it is none.
    """
    if not field.isdigit():
        raise FeatureError(f"{where}: {name} is {field[:40]!r}, expected a whole number; the file is damaged")
    return int(field)


def no_rows(image_id: int, where: str) -> FeatureError:
    """Return the error of an image without boxes."""
    return FeatureError(
        f"{where}: image id {image_id} has zero boxes; a model needs at least one vector: extract it again with a "
        "lower threshold, or leave the image out of the corpus"
    )


def one_of(paths: Sequence[Path], what: str) -> Path:
    """Return the only path.

    Raises:
        FeatureError: there are several, or it does not exist.
    """
    if len(paths) != 1:
        raise FeatureError(f"{paths[0]} and {len(paths) - 1} others: this form takes one {what}; import each alone")
    return existing(paths)[0]


def existing(paths: Iterable[Path]) -> list[Path]:
    """Return the paths.

    Raises:
        FeatureError: one does not exist.
    """
    found = list(paths)
    for path in found:
        if not path.exists():
            raise FeatureError(f"{path}: no such file or folder of features; correct the path")
    return found
