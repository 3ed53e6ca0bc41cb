"""What the features of an image are made from,
and what earlier runs have left that is still made from it.

What an earlier run finished is used again only where images are made from the same bytes. Beside
each shard stands, for each of its images, the sha256 of these bytes and a mark of the files that
hold them: size, time of the last write, inode, time of the last change. A file whose mark is as
noted has the noted bytes: whoever replaces it and sets its time and size back changes the time of
its last change, which nobody can set. Any other file is read again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from recap.core.documents import read_json, write_json
from recap.core.errors import FeatureError, RecapError
from recap.core.files import reading
from recap.core.hashing import sha256_file
from recap.core.log import log
from recap.data.files.images import ImageSource
from recap.features.store import FeatureStore

SHARD = ".shard.h5"  # ends the name of a shard
MERGING = ".merging.h5"  # that of a store that is being filled from shards
Mark = list[list[int]]  # of each file: size, time of the last write, inode, time of the last change
# ns; what changed later than that may change again without another time: clocks tick coarsely
_SETTLED = 2 * 10**9
_GONE = {
    "missing": "put it back and run the same command again",
    "damaged": "run the same command again",
}


@dataclass(frozen=True)
class Origins:
    """What each image is made from; by default nothing that could change."""

    # differs whenever the bytes may differ, which are not read
    mark: Callable[[int], Mark] = lambda image_id: []
    content: Callable[[int], str] = lambda image_id: ""  # a hash of the bytes


def of_files(files: Callable[[int], Sequence[Path]]) -> Origins:
    """Return the origins of images that are made from the whole of some files."""
    return Origins(
        lambda image_id: [file_mark(path) for path in files(image_id)],
        lambda image_id: " ".join(map(_sha256, files(image_id))),
    )


def of_store(store: FeatureStore, others: Origins) -> Origins:
    """Return the origins of images made from those of another store and something else."""
    digests = dict(zip(store.ids.tolist(), map(bytes, store.digests), strict=True))
    return Origins(
        lambda image_id: [[int.from_bytes(digests[image_id][:7]), 0], *others.mark(image_id)],
        lambda image_id: f"{digests[image_id].hex()} {others.content(image_id)}",
    )


def of_pictures(source: ImageSource, views: Mapping[int, Sequence[str]]) -> Origins:
    """Return the origins of images that are pictures in folders
    or zips, whose lists of entries hold a CRC of each."""
    zips = {root: ZipFile(root) for root in source.roots if not root.is_dir()}
    turned = " upright" if source.upright else ""
    places = {
        image: [place for place in map(source.locate, files) if place]
        for image, files in views.items()
    }

    def content(root: Path, name: str) -> str:
        if root not in zips:
            return _sha256(root / name)
        entry = zips[root].getinfo(name)
        return f"{entry.file_size}-{entry.CRC:08x}"

    return Origins(
        lambda image_id: [
            file_mark(root if root in zips else root / name) for root, name in places[image_id]
        ],
        lambda image_id: " ".join(content(root, name) for root, name in places[image_id]) + turned,
    )


def file_mark(path: Path) -> list[int]:
    """Return what changes whenever a file is written or replaced.

    The last number is the time of the change, in ns.
    """
    with reading(path, FeatureError, **_GONE):
        status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns]


def _sha256(path: Path) -> str:
    with reading(path, FeatureError, **_GONE):
        return sha256_file(path)


def check_unchanged(origins: Origins, before: Mapping[int, Mark]) -> None:
    """Compare marks that were taken before the files were read with those of now."""
    for image_id, mark in before.items():
        if origins.mark(image_id) != mark:
            raise FeatureError(
                f"image id {image_id}: the files it is made from were changed while they were "
                "read; leave them alone and run the same command again, which "
                "rebuilds what has changed"
            )


def hashed(content: str) -> bytes:
    """Return what a store holds of the content of an image."""
    return hashlib.sha256(content.encode()).digest()


class Notes:
    """What the images of a job are made from: as earlier runs noted, or read."""

    def __init__(self, origins: Origins, ids: Iterable[int], files: Iterable[Path]) -> None:
        """Mark the source files of the images before any of them is read.

        Take notes of earlier runs.
        """
        self._origins = origins
        self._before = {image_id: origins.mark(image_id) for image_id in ids}
        self._noted: dict[str, dict[str, Any]] = {}
        for file in files:
            # Without notes, or where they are damaged, everything is read.
            with suppress(RecapError):
                self._noted |= read_json(file, dict[str, dict[str, Any]])

    def content(self, image_id: int) -> str:
        """Return the hash of what an image is made from; only what is not as noted is read."""
        noted = self._noted.get(str(image_id), {})
        if noted.get("mark") is not None and noted["mark"] == self._before[image_id]:
            return str(noted.get("content"))
        return self._origins.content(image_id)

    def take(self, ids: Sequence[int]) -> list[str]:
        """Note and return the hashes of what images were made from just now."""
        contents = [self._origins.content(image_id) for image_id in ids]
        settled = time.time_ns() - _SETTLED
        check_unchanged(self._origins, {image_id: self._before[image_id] for image_id in ids})
        for image_id, content in zip(ids, contents, strict=True):
            mark = self._before[image_id]
            lasting = mark if all(file[-1] < settled for file in mark) else None
            self._noted[str(image_id)] = {"mark": lasting, "content": content}
        return contents

    def write(self, path: Path, ids: Sequence[int]) -> None:
        """Write the notes of some images."""
        write_json(path, {key: self._noted[key] for key in map(str, ids) if key in self._noted})


def notes_of(path: Path) -> Path:
    """Return the file with notes of what the images of a store or shard are made from."""
    return path.with_name(f"{path.name}.origins.json")


class Earlier:
    """Finished images that are still what the job would make;
    ``stores``: image id -> the store or shard with it."""

    def __init__(self, ids: Sequence[int], *, job: str, notes: Notes | None) -> None:
        """Look for these images, made by this job.

        ``notes`` tell what they must be made from (None: anything).
        """
        self._ids = np.asarray(ids, np.int64)
        self._job, self._notes = job, notes
        self.stores: dict[int, FeatureStore] = {}

    def add(self, path: Path | None, *, others: bool = False) -> FeatureStore | None:
        """Take the images of a store or shard that no other has given; return it if it is of this
        job.

        A damaged one, or an image that is not what the job would make, is left out with a message.
        With ``others`` its images that are not looked for are taken, too; what they are made from
        is compared when they are.
        """
        if path is None or not path.exists():
            return None
        try:
            store = FeatureStore(path)
        except FeatureError as error:
            log.warning(f"{error} (doing that now)")
            return None
        if store.attributes.get("job") != self._job:
            return None
        own = np.isin(store.ids, self._ids)
        wanted = own & [image_id not in self.stores for image_id in store.ids.tolist()]
        if wanted.any() or others:
            intact = store.intact()
            current = wanted & intact
            if self._notes is not None:
                for position in np.flatnonzero(current).tolist():
                    content = self._notes.content(int(store.ids[position]))
                    current[position] = store.origins[position].tobytes() == hashed(content)
            damaged, stale = int((wanted & ~intact).sum()), int((wanted & intact & ~current).sum())
            # which lacks what has not been copied yet
            if damaged and not path.name.endswith(MERGING):
                log.warning(
                    f"{path}: {damaged} images do not match their checksums (making them again)"
                )
            if stale:
                log.warning(
                    f"{path}: source files of {stale} images have changed since (making them again)"
                )
            taken = current | (intact & ~own) if others else current
            self.stores |= dict.fromkeys(store.ids[taken].tolist(), store)
        return store

    def lacks(self, ids: Iterable[int]) -> list[int]:
        """Return those of these images that are not finished."""
        return [image_id for image_id in ids if image_id not in self.stores]
