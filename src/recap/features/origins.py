"""What the features of an image are made from: how a changed picture or file is noticed, however like the old one.

Finished shards of a killed run are used again only where their images are made from the same bytes. Beside each shard
stands, for each of its images, the sha256 of these bytes and a mark of the files that hold them: size, time of the last
write, inode, time of the last change. A file whose mark is as noted has the noted bytes: whoever replaces it and sets
its time and size back changes the time of its last change, which nobody can set. Any other file is read again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from zipfile import ZipFile

from recap.core.errors import FeatureError
from recap.core.hashing import sha256_file
from recap.data.files.images import ImageSource

Mark = list[list[int]]  # of each file: size, time of the last write, inode, time of the last change

_SETTLED = 2 * 10**9  # ns; what changed later than that may change again without another time: clocks tick coarsely


class Origins(Protocol):
    """Tells what each image is made from."""

    def mark(self, image_id: int) -> Mark:
        """Return what differs whenever the bytes may differ, without reading them."""

    def content(self, image_id: int) -> str:
        """Return a hash of the bytes."""


class Nothing:
    """The origins of images that are made from no file."""

    def mark(self, image_id: int) -> Mark:
        """Return no files."""
        return []

    def content(self, image_id: int) -> str:
        """Return the hash of nothing."""
        return ""


class WholeFiles:
    """The origins of images with separate files."""

    def __init__(self, files: Callable[[int], Sequence[Path]]) -> None:
        """Take what gives the files of an image id."""
        self._files = files

    def mark(self, image_id: int) -> Mark:
        """Return the marks of the files."""
        return [file_mark(path) for path in self._files(image_id)]

    def content(self, image_id: int) -> str:
        """Return the hashes of the files."""
        return " ".join(map(_sha256, self._files(image_id)))


class ShownPictures:
    """The origins of images that are pictures in folders or zips, whose lists of entries hold a CRC of each."""

    def __init__(self, source: ImageSource, views: Mapping[int, Sequence[str]]) -> None:
        """Find the pictures; all of them exist."""
        self._zips = {root: ZipFile(root) for root in source.roots if not root.is_dir()}
        self._places = {
            image_id: [place for place in map(source.locate, files) if place] for image_id, files in views.items()
        }

    def mark(self, image_id: int) -> Mark:
        """Return the marks of the pictures' files, or of the zips that hold them."""
        return [file_mark(root if root in self._zips else root / name) for root, name in self._places[image_id]]

    def content(self, image_id: int) -> str:
        """Return the hashes of the pictures, or sizes and CRCs of the entries."""
        return " ".join(self._one(root, name) for root, name in self._places[image_id])

    def _one(self, root: Path, name: str) -> str:
        if root not in self._zips:
            return _sha256(root / name)
        entry = self._zips[root].getinfo(name)
        return f"{entry.file_size}-{entry.CRC:08x}"


def file_mark(path: Path) -> list[int]:
    """Return what changes whenever a file is written or replaced; the last number is the time of the change, in ns."""
    try:
        found = path.stat()
    except OSError as error:
        raise _gone(path, error) from error
    return [found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns]


def _sha256(path: Path) -> str:
    try:
        return sha256_file(path)
    except OSError as error:
        raise _gone(path, error) from error


def _gone(path: Path, error: OSError) -> FeatureError:
    return FeatureError(
        f"{path}: cannot be read any more ({error.strerror}); put it back and run the same command again"
    )


def check_unchanged(origins: Origins, before: Mapping[int, Mark]) -> None:
    """Compare marks that were taken before the files were read with those of now.

    Raises:
        FeatureError: a file was written or replaced in between.
    """
    for image_id, mark in before.items():
        if origins.mark(image_id) != mark:
            raise FeatureError(
                f"image id {image_id}: the files it is made from were changed while they were read; leave them alone "
                "and run the same command again, which makes again what has changed"
            )


def taken(origins: Origins, before: Mapping[int, Mark]) -> dict[str, Any]:
    """Return notes of what images were made from; ``before`` are their marks before they were read.

    Raises:
        FeatureError: a file was written or replaced in between.
    """
    contents = [origins.content(image_id) for image_id in before]
    settled = time.time_ns() - _SETTLED
    check_unchanged(origins, before)
    return {
        str(image_id): {"mark": mark if all(file[-1] < settled for file in mark) else None, "content": content}
        for (image_id, mark), content in zip(before.items(), contents, strict=True)
    }


def recall(origins: Origins, ids: Sequence[int], beside: Path) -> list[str]:
    """Return the hashes of what images are made from now; only what is not as noted is read."""
    notes = _notes(beside)
    found = []
    for image_id in ids:
        noted = notes.get(str(image_id), {})
        known = noted.get("mark") is not None and noted["mark"] == origins.mark(image_id)
        found.append(str(noted.get("content")) if known else origins.content(image_id))
    return found


def _notes(path: Path) -> dict[str, Any]:
    """Return the notes beside a shard; without them, or where they are damaged, everything is read."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and all(isinstance(value, dict) for value in found.values()) else {}


def joint_hash(contents: Sequence[str]) -> str:
    """Return one hash of many, in their order."""
    return hashlib.sha256("\n".join(contents).encode()).hexdigest()
