"""What the features of an image are made from: how a changed picture or file is noticed, however like the old one.

What an earlier run finished is used again only where images are made from the same bytes. Beside each shard stands, for
each of its images, the sha256 of these bytes and a mark of the files that hold them: size, time of the last
write, inode, time of the last change. A file whose mark is as noted has the noted bytes: whoever replaces it and sets
its time and size back changes the time of its last change, which nobody can set. Any other file is read again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from zipfile import ZipFile

from recap.core.documents import write_json
from recap.core.errors import FeatureError
from recap.core.hashing import sha256_file
from recap.data.files.images import ImageSource

if TYPE_CHECKING:
    from recap.features.store import FeatureStore

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


class FromStore:
    """The origins of images that are made from those of another store."""

    def __init__(self, store: FeatureStore, pictures: Origins) -> None:
        """Take the other store, and what else each image is made from."""
        self._digests = dict(zip(store.ids.tolist(), store.digests(), strict=True))
        self._pictures = pictures

    def mark(self, image_id: int) -> Mark:
        """Return a mark of the image in the store, and those of the rest."""
        return [[int.from_bytes(self._digests[image_id].tobytes()[:7]), 0], *self._pictures.mark(image_id)]

    def content(self, image_id: int) -> str:
        """Return the digest of the image in the store, and the hash of the rest."""
        return f"{self._digests[image_id].tobytes().hex()} {self._pictures.content(image_id)}"


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
                "and run the same command again, which rebuilds what has changed"
            )


class Notes:
    """What the images of a job are made from: as earlier runs noted, or read."""

    def __init__(self, origins: Origins, ids: Iterable[int], files: Iterable[Path]) -> None:
        """Note the state of the source files of the images before any of them is read; take notes of earlier runs."""
        self._origins = origins
        self._before = {image_id: origins.mark(image_id) for image_id in ids}
        self._noted: dict[str, Any] = {}
        for file in files:
            self._noted |= _read_notes(file)

    def content(self, image_id: int) -> str:
        """Return the hash of what an image is made from; only what is not as noted is read."""
        noted = self._noted.get(str(image_id), {})
        if noted.get("mark") is not None and noted["mark"] == self._before[image_id]:
            return str(noted.get("content"))
        return self._origins.content(image_id)

    def take(self, ids: Sequence[int]) -> list[str]:
        """Note and return the hashes of what images were made from just now.

        Raises:
            FeatureError: a file was written or replaced since the job began.
        """
        contents = [self._origins.content(image_id) for image_id in ids]
        settled = time.time_ns() - _SETTLED
        check_unchanged(self._origins, {image_id: self._before[image_id] for image_id in ids})
        for image_id, content in zip(ids, contents, strict=True):
            mark = self._before[image_id]
            known = mark if all(file[-1] < settled for file in mark) else None
            self._noted[str(image_id)] = {"mark": known, "content": content}
        return contents

    def write(self, path: Path, ids: Sequence[int]) -> None:
        """Write the notes of some images."""
        write_json(path, {key: self._noted[key] for key in map(str, ids) if key in self._noted})


def _read_notes(path: Path) -> dict[str, Any]:
    """Return the notes beside a shard; without them, or where they are damaged, everything is read."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and all(isinstance(value, dict) for value in found.values()) else {}


def hashed(content: str) -> bytes:
    """Return what a store holds of the content of an image."""
    return hashlib.sha256(content.encode()).digest()


def joint_hash(contents: Sequence[str]) -> str:
    """Return one hash of many, in their order."""
    return hashed("\n".join(contents)).hex()
