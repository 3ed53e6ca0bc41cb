"""The shards of an unfinished feature store: each complete or absent, with a note of the source files beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from recap.core.errors import FeatureError
from recap.core.files import atomic_path
from recap.features.layout import image_digest
from recap.features.origins import Notes, hashed
from recap.features.packing import Index, fill, lay_out, need_room
from recap.features.records import ImageFeatures, stored_arrays

SHARD, MERGING = ".shard.h5", ".merging.h5"  # endings of shards, and of a store that is being filled from them


class Shard:
    """Some images of a feature store that is being written.

    Attributes:
        ids: of its images, ascending.
        path: the shard, itself a feature store.
    """

    def __init__(self, folder: Path, job: str, group: Sequence[int], ids: Sequence[int]) -> None:
        """Take the ids of a group of neighbors, which name the shard, and those of them that are to be extracted."""
        self.ids = list(ids)
        self.path = folder / f"{job}-{set_hash(group)}{SHARD}"

    def write(self, records: Iterator[ImageFeatures], *, header: Mapping[str, str], notes: Notes) -> None:
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
        index = _index(self.ids, sizes, images, notes.take(self.ids), streams)
        kinds = {name: (array.dtype.name, array.shape[1:]) for name, array in images[0].items()}
        need_room(self.path, kinds, {stream: int(offsets[-1]) for stream, offsets in index.offsets.items()})
        with atomic_path(self.path) as temporary:
            fill(lay_out(temporary, index=index, kinds=kinds, header=header), dict.fromkeys(kinds, 0), images)
        notes.write(notes_of(self.path), self.ids)


def set_hash(ids: Sequence[int]) -> str:
    """Return 16 hex digits that stand for a set of ids."""
    return hashlib.sha256(np.unique(np.asarray(ids, "<i8")).tobytes()).hexdigest()[:16]


def notes_of(path: Path) -> Path:
    """Return the file with notes of what the images of a store or shard are made from."""
    return path.with_name(f"{path.name}.origins.json")


def _index(
    ids: Sequence[int],
    sizes: Sequence[tuple[int, int]],
    images: Sequence[Mapping[str, np.ndarray]],
    contents: Sequence[str],
    streams: Sequence[str],
) -> Index:
    offsets = {}
    for stream in streams:
        counts = [len(arrays[f"{stream}/values"]) for arrays in images]
        offsets[stream] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    digests = np.frombuffer(b"".join(map(image_digest, images)), np.uint8).reshape(-1, 32)
    origins = np.frombuffer(b"".join(map(hashed, contents)), np.uint8).reshape(-1, 32)
    return Index(np.asarray(ids, np.int64), np.asarray(sizes, np.int32).reshape(-1, 2), digests, origins, offsets)


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
