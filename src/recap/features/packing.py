"""Writes files of feature stores: first their whole structure, then features at their places.

HDF5 lays a file out; features are written without it. So an unfinished file can be opened, each of its images is there
or not, and the next run fills in what is missing. Equal content gives equal bytes, in whatever order it came.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recap.core.errors import FeatureError
from recap.features.header import block_size, seal
from recap.features.layout import (
    LAYOUT,
    Packed,
    attributes_checksum,
    checksum,
    feature_hash,
    index_checksum,
)

_SPARE = 2**20  # bytes of a file beside its features, about


@dataclass(frozen=True)
class Index:
    """Which rows belong to which image.

    Attributes:
        ids: int64 [images], rising.
        sizes: int32 [images, 2], width and height.
        digests: uint8 [images, 32], the sha256 of each image's rows.
        origins: uint8 [images, 32], the sha256 of what each image is made from.
        offsets: int64 [images + 1] of each stream.
    """

    ids: np.ndarray
    sizes: np.ndarray
    digests: np.ndarray
    origins: np.ndarray
    offsets: dict[str, np.ndarray]


Kinds = Mapping[str, tuple[str, tuple[int, ...]]]  # type and shape of a row of each array by its path (``grid/values``)


def lay_out(path: Path, *, index: Index, kinds: Kinds, header: Mapping[str, str]) -> dict[str, Packed]:
    """Write a file that has everything but features, and return where these belong.

    Args:
        path: the file.
        index: which rows belong to which image.
        kinds: the arrays of features.
        header: attributes of the file; ``streams`` names the streams, the main one first.
    """
    found = {
        "checksum": checksum(index.digests),
        "index_checksum": index_checksum(index.ids, index.sizes, index.offsets),
        "layout": LAYOUT,
    }
    said = {**header, **found, "feature_hash": feature_hash({**header, **found})}
    said = dict(sorted({**said, "attributes_checksum": attributes_checksum(said)}.items()))
    small = {"ids": index.ids, "image_sizes": index.sizes, "digests": index.digests, "origins": index.origins}
    small |= {f"{stream}/offsets": offsets for stream, offsets in index.offsets.items()}
    with _new_file(path, block_size(said, len(small) + len(kinds))) as file:
        made = {name: file.create_dataset(name, data=array, track_times=False) for name, array in small.items()}
        for name, (dtype, row) in kinds.items():
            rows = int(index.offsets[name.split("/")[0]][-1])
            made[name] = file.create_dataset(name, (rows, *row), dtype, dcpl=_allocated(), track_times=False)
        file.attrs.update(said)
        arrays = {name: Packed(path, each.dtype, each.shape, each.id.get_offset()) for name, each in made.items()}
    seal(path, said, arrays)
    return {name: arrays[name] for name in kinds}


def fill(places: Mapping[str, Packed], starts: Mapping[str, int], blocks: Iterable[Mapping[str, np.ndarray]]) -> None:
    """Write pieces of all arrays one after the other, each array from its row ``starts[path]`` on."""
    rows = dict(starts)
    path = next(iter(places.values())).path
    with path.open("r+b") as file:
        for block in blocks:
            for name, piece in block.items():
                file.seek(places[name].offset + rows[name] * places[name].row_bytes)
                file.write(np.ascontiguousarray(piece).data)
                rows[name] += len(piece)


def need_room(path: Path, kinds: Kinds, rows: Mapping[str, int]) -> None:
    """Check that the disk has room for so many rows of each stream.

    Raises:
        FeatureError: it has not.
    """
    width = {name: int(np.prod(row)) * np.dtype(dtype).itemsize for name, (dtype, row) in kinds.items()}
    size = sum(rows[name.split("/")[0]] * each for name, each in width.items()) + _SPARE
    path.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(path.parent).free
    if free < size:
        raise FeatureError(
            f"{path}: needs {size / 2**20:.1f} MiB, but only {free / 2**20:.1f} MiB are free; "
            "make room and run the same command again"
        )


def _new_file(path: Path, block: int) -> Any:
    """Open a file to write whose bytes depend on its content only, and whose values start at a page of memory."""
    import h5py

    aligned = {"alignment_threshold": 4096, "alignment_interval": 4096}
    return h5py.File(path, "w", libver=("v108", "v108"), locking=False, userblock_size=block, **aligned)


def _allocated() -> Any:
    """Return the property of an array that its place is chosen when it is created, and nothing is written there."""
    import h5py

    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    return properties
