"""What importers share: entries found before anything is read, ids from names, checks with one sentence each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Protocol

from recap.core.errors import FeatureError, MissingFeatures
from recap.features.origins import Origins
from recap.features.records import ImageFeatures

_NUMBER = re.compile(r"(?:^|[_-])([0-9]+)$")
_PUBLISHED = re.compile(r"(?:COCO_[a-z]+20\d\d_)?([0-9]{1,19})")  # names that are an image id, or hold COCO's
_LARGEST_ID = 2**63 - 1  # ids are stored as int64


class ImageIdLookup:
    """Turns what a file calls a picture into its id: by the names of a corpus's pictures, whole, or by its number.

    A number is an id where the picture of this id has it in its own name, as COCO's have: of pictures that a reader
    numbered, it would be another one. ``names`` (`ImportedFeatures.names`) decides where a name fits two ways.
    """

    def __init__(self, files: Mapping[int, str] | None = None, names: Literal["files", "ids"] | None = None) -> None:
        """Take image id -> file name of a corpus, or nothing; then the number at the end of a name is the id."""
        if files is None and names == "files":
            raise FeatureError("names: files: there are no files to compare names with; give the --corpus")
        self._files, self._names = files, names
        self.unfit: set[str] = set()  # names that no picture of the corpus has
        self._by_stem: dict[str, tuple[int, ...]] = {}
        for image_id, file in (files or {}).items():
            stem = PurePosixPath(file).stem
            self._by_stem[stem] = (*self._by_stem.get(stem, ()), image_id)

    def image_id(self, name: str, where: str) -> int | None:
        """Return the id of ``name`` (``132417``, ``COCO_train2014_000000132417.jpg``, ``photos/dog``); None: unfit."""
        path = PurePosixPath(name)
        if self._files is None or self._names == "ids":
            return _id_at_end(path, where)
        alike = [i for stem in {path.name, path.stem} for i in self._by_stem.get(stem, ())]
        fits = [i for i in alike if name in (self._files[i], _without_suffix(self._files[i]))] or alike
        match = _PUBLISHED.fullmatch(path.stem) if self._names is None else None
        if match is not None and (number := int(match[1])) in self._files:
            own = _NUMBER.search(PurePosixPath(self._files[number]).stem)
            if fits and match[0] == match[1] or not fits and own is not None and int(own[1]) == number:
                fits.append(number)
        if len(set(fits)) > 1:
            both = " and ".join(f"{self._files[i]} (image id {i})" for i in dict.fromkeys(fits[:1] + fits[-1:]))
            raise FeatureError(
                f"{where}: {name[:80]!r} fits {both}; say with `names` (--names) whether names are those of `files` or "
                "image `ids`, or put the picture's folder before its name"
            )
        if not fits:
            self.unfit.add(name)
        return fits[0] if fits else None


def _id_at_end(path: PurePosixPath, where: str) -> int:
    match = _NUMBER.search(path.stem)
    if match is None:
        raise FeatureError(
            f"{where}: {path.name[:80]!r} has no image id at its end and no corpus to find it in; give the --corpus"
        )
    if len(match[1]) > 19 or int(match[1]) > _LARGEST_ID:
        raise FeatureError(f"{where}: the image id {match[1][:40]} is larger than {_LARGEST_ID}; correct it")
    return int(match[1])


def _without_suffix(file: str) -> str:
    return file.removesuffix(PurePosixPath(file).suffix)


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

    def add(self, image_id: int | None, entry: Any, where: str) -> None:
        """Add an entry; one without an id is of no picture that is asked for."""
        if image_id is None:
            return
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
    """Return the only path; several are refused, as is one that does not exist."""
    if len(paths) != 1:
        raise FeatureError(f"{paths[0]} and {len(paths) - 1} others: this format takes one {what}; import each alone")
    return existing(paths)[0]


def plain_files(paths: Sequence[Path], what: str) -> list[Path]:
    """Return the paths; one that does not exist, is a folder, or may not be read is refused."""
    for path in existing(paths):
        if not path.is_file():
            raise FeatureError(f"{path}: is no file; this format takes {what}: correct the path")
        try:
            path.open("rb").close()
        except OSError as error:
            raise FeatureError(f"{path}: cannot be read ({error.strerror}); correct its rights or the path") from error
    return list(paths)


def existing(paths: Iterable[Path]) -> list[Path]:
    """Return the paths; one that does not exist is refused."""
    found = list(paths)
    for path in found:
        try:
            path.stat()
        except (OSError, ValueError) as error:
            raise MissingFeatures(f"{str(path)[:300]}: no such file or folder of features; correct the path") from error
    return found
