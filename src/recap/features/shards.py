"""The shards of an unfinished feature store: each complete or absent, with a note of the source files beside it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from recap.core.errors import FeatureError
from recap.core.files.atomic import remove_leftovers
from recap.core.files.json_files import write_json
from recap.core.log import log
from recap.features.layout import image_digest
from recap.features.origins import Origins, joint_hash, recall, taken
from recap.features.packing import Index, write_file
from recap.features.records import ImageFeatures, stored_arrays
from recap.features.store import FeatureStore

_NAME = re.compile(r"[0-9a-f]{16}-\d{6}\.(shard\.h5|origins\.json)")


class Shard:
    """Some images of a feature store that is being written.

    Attributes:
        ids: of its images, ascending.
        path: the shard, itself a feature store.
    """

    def __init__(self, folder: Path, job: str, number: int, ids: list[int], origins: Origins) -> None:
        """Note the state of the source files of the images, before any of them is read."""
        self.ids = ids
        self.path = folder / f"{job}-{number:06d}.shard.h5"
        self._job, self._origins = job, origins
        self._notes = folder / f"{job}-{number:06d}.origins.json"
        self._before = {image_id: origins.mark(image_id) for image_id in ids}

    @cached_property
    def made_from(self) -> list[str]:
        """The hashes of the source files of its images; only files that differ from the note are read."""
        return recall(self._origins, self.ids, self._notes)

    def finished(self) -> bool:
        """Return whether an earlier run finished it from the current bytes of the source files."""
        return finished(self.path, self._job, self.ids, made_from=lambda: joint_hash(self.made_from))

    def write(self, records: Iterator[ImageFeatures], *, header: Mapping[str, str]) -> None:
        """Take the features of its images from ``records`` and write them.

        Raises:
            FeatureError: they are inconsistent, a source file changed meanwhile, or the disk is too small.
        """
        streams = header["streams"].split()
        images: list[dict[str, np.ndarray]] = []
        sizes: list[tuple[int, int]] = []
        for record, image_id in zip(islice(records, len(self.ids)), self.ids, strict=True):
            if record.image_id != image_id:
                raise FeatureError(
                    f"{self.path}: the extractor gave image id {record.image_id} where {image_id} was asked for"
                )
            arrays = stored_arrays(record, dtype=header["dtype"], streams=streams)
            _same_form(image_id, arrays, images[0] if images else arrays)
            images.append(arrays)
            sizes.append(record.size)
        notes = taken(self._origins, self._before)
        self.made_from = [noted["content"] for noted in notes.values()]
        kinds = {name: (array.dtype.name, array.shape[1:]) for name, array in images[0].items()}
        own = {**header, "made_from": joint_hash(self.made_from)}
        write_file(self.path, index=_index(self.ids, sizes, images, streams), kinds=kinds, blocks=images, header=own)
        write_json(self._notes, notes)


def finished(path: Path, job: str, ids: Sequence[int], *, made_from: Callable[[], str]) -> bool:
    """Return whether ``path`` is a complete store or shard of these images, made by this job from these bytes."""
    if not path.exists():
        return False
    try:
        store = FeatureStore(path)
        store.verify()
    except FeatureError as error:
        log.warning(f"{error} (doing that now)")
        return False
    if store.attributes["job"] != job or not np.array_equal(store.ids, np.unique(np.asarray(ids, dtype=np.int64))):
        return False
    if store.attributes.get("made_from") != made_from():
        log.warning(f"{path}: its source files have changed since (making it again)")
        return False
    return True


def check_writable(path: Path) -> None:
    """Create the folder of a file that will be written, before hours are spent on its content.

    Raises:
        FeatureError: the folder cannot be made or written, or the file is a folder.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise FeatureError(f"{path.parent}: cannot be written ({error.strerror}); name another folder") from error
    if path.is_dir():
        raise FeatureError(f"{path}: is a folder; name a file in it")


def remove_unfinished(shards: Path) -> None:
    """Remove the temporary files of shards whose writer was killed."""
    remove_leftovers(shards, _NAME.pattern)


def remove_shards(shards: Path) -> None:
    """Remove all shards, also those of other jobs, and the folder if that leaves it empty."""
    if not shards.is_dir():
        return
    remove_unfinished(shards)
    for path in shards.iterdir():
        if _NAME.fullmatch(path.name):
            path.unlink()
    if not any(shards.iterdir()):
        shards.rmdir()


def _index(
    ids: Sequence[int],
    sizes: Sequence[tuple[int, int]],
    images: Sequence[Mapping[str, np.ndarray]],
    streams: Sequence[str],
) -> Index:
    offsets = {}
    for stream in streams:
        counts = [len(arrays[f"{stream}/values"]) for arrays in images]
        offsets[stream] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    digests = np.frombuffer(b"".join(map(image_digest, images)), np.uint8).reshape(-1, 32)
    return Index(np.asarray(ids, np.int64), np.asarray(sizes, np.int32).reshape(-1, 2), offsets, digests)


def _same_form(image_id: int, arrays: Mapping[str, np.ndarray], first: Mapping[str, np.ndarray]) -> None:
    """Refuse an image whose arrays are not those of the first one, or have rows of another shape."""
    if arrays.keys() != first.keys():
        raise FeatureError(
            f"image id {image_id}: has {', '.join(arrays)}, the images before it {', '.join(first)}; "
            "the extractor must give every image the same"
        )
    for name, array in arrays.items():
        if array.shape[1:] != first[name].shape[1:]:
            rows = ", ".join(map(str, first[name].shape[1:]))
            raise FeatureError(
                f"image id {image_id}: features of shape {list(array.shape)}, expected [rows, {rows}]; "
                "the extractor must give every image vectors of one length"
            )
