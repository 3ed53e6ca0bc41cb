"""What importers share: entries found before anything is read, ids from names, checks with one sentence each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from recap.core.errors import FeatureError, MissingFeatures
from recap.features.origins import Origins
from recap.features.records import ImageFeatures

_NUMBER = re.compile(r"(?:^|[_-])([0-9]+)(?:\.\w+)?$")
_LARGEST_ID = 2**63 - 1  # ids are stored as int64


class ImageIdLookup:
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
        if len(match[1]) > 19 or int(match[1]) > _LARGEST_ID:
            raise FeatureError(f"{where}: the image id {match[1][:40]} is larger than {_LARGEST_ID}; correct it")
        return int(match[1])


class Source(Protocol):
    """A file or folder of features whose images are known before they are read."""

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams that every image has, the main one first."""

    @property
    def ids(self) -> Callable[[], list[int]]:
        """Returns the ids of all images."""

    @property
    def origins(self) -> Origins:
        """Tells which bytes each image is made from."""

    def read(self, image_id: int) -> ImageFeatures:
        """Return the features of one image."""


class EntryIndex:
    """Where each image's entry is; an image that has two entries is refused when the second is added."""

    def __init__(self) -> None:
        self._entries: dict[int, Any] = {}

    def add(self, image_id: int, entry: Any, where: str) -> None:
        """Add an entry.

        Raises:
            FeatureError: the image has one already.
        """
        if image_id in self._entries:
            raise FeatureError(f"{where}: image id {image_id} is duplicated; remove one of the two")
        self._entries[image_id] = entry

    def remove(self, image_id: int) -> None:
        """Forget the entry of an image."""
        del self._entries[image_id]

    def __getitem__(self, image_id: int) -> Any:
        return self._entries[image_id]

    def ids(self) -> list[int]:
        """Return all image ids."""
        return list(self._entries)


def no_rows(image_id: int, where: str) -> FeatureError:
    """Return the error of an image without boxes."""
    return FeatureError(
        f"{where}: image id {image_id} has zero boxes; a model needs at least one vector: extract it again with a "
        "lower threshold, or leave the image out of the corpus"
    )


def only_path(paths: Sequence[Path], what: str) -> Path:
    """Return the only path.

    Raises:
        FeatureError: there are several, or it does not exist.
    """
    if len(paths) != 1:
        raise FeatureError(f"{paths[0]} and {len(paths) - 1} others: this format takes one {what}; import each alone")
    return existing(paths)[0]


def plain_files(paths: Sequence[Path], what: str) -> list[Path]:
    """Return the paths.

    Raises:
        FeatureError: one does not exist, is a folder, or may not be read.
    """
    for path in existing(paths):
        if not path.is_file():
            raise FeatureError(f"{path}: is no file; this format takes {what}: correct the path")
        try:
            path.open("rb").close()
        except OSError as error:
            raise FeatureError(f"{path}: cannot be read ({error.strerror}); correct its rights or the path") from error
    return list(paths)


def existing(paths: Iterable[Path]) -> list[Path]:
    """Return the paths.

    Raises:
        FeatureError: one does not exist.
    """
    found = list(paths)
    for path in found:
        try:
            path.stat()
        except (OSError, ValueError) as error:
            raise MissingFeatures(f"{str(path)[:300]}: no such file or folder of features; correct the path") from error
    return found
