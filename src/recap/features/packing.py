"""Writes one file of a feature store, whole or not at all; equal content gives equal bytes."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recap.core.errors import FeatureError
from recap.core.files.atomic import atomic_path
from recap.features.layout import LAYOUT, attributes_checksum, checksum, feature_hash, index_checksum
from recap.features.store import FeatureStore


@dataclass(frozen=True)
class Index:
    """Which rows belong to which image: ids [images], sizes [images, 2], offsets [images + 1] of each stream."""

    ids: np.ndarray
    sizes: np.ndarray
    offsets: dict[str, np.ndarray]
    digests: np.ndarray


def write_file(
    path: Path,
    *,
    index: Index,
    kinds: Mapping[str, tuple[str, tuple[int, ...]]],
    blocks: Iterable[Mapping[str, np.ndarray]],
    header: Mapping[str, str],
) -> None:
    """Write the index, all arrays as they come, then what the file says of itself.

    Args:
        path: the file.
        index: which rows belong to which image.
        kinds: type and shape of a row of each array by its path (``grid/values``).
        blocks: pieces of all arrays, in the order of the images.
        header: attributes of the file; ``streams`` names the streams, the main one first.

    Raises:
        FeatureError: there is no room for it.
    """
    shapes = {name: (int(index.offsets[name.split("/")[0]][-1]), *row) for name, (_, row) in kinds.items()}
    size = sum(int(np.prod(shapes[name])) * np.dtype(dtype).itemsize for name, (dtype, _) in kinds.items())
    _need_room(path, size + 2**20)
    with atomic_path(path) as temporary, _new_file(temporary) as file:
        file.create_dataset("ids", data=index.ids, track_times=False)
        file.create_dataset("image_sizes", data=index.sizes, track_times=False)
        file.create_dataset("digests", data=index.digests, track_times=False)
        for stream, offsets in index.offsets.items():
            file.create_group(stream).create_dataset("offsets", data=offsets, track_times=False)
        made = {
            name: file.create_dataset(name, shapes[name], dtype, track_times=False, fill_time="never")
            for name, (dtype, _) in kinds.items()
        }
        starts = dict.fromkeys(kinds, 0)
        for block in blocks:
            for name, piece in block.items():
                made[name][starts[name] : starts[name] + len(piece)] = piece
                starts[name] += len(piece)
        found = {
            "checksum": checksum(index.digests),
            "index_checksum": index_checksum(index.ids, index.sizes, index.offsets),
            "layout": LAYOUT,
        }
        said = {**header, **found, "feature_hash": feature_hash({**header, **found})}
        file.attrs.update({**said, "attributes_checksum": attributes_checksum(said)})


def join(stores: Sequence[FeatureStore], out: Path, *, header: Mapping[str, str]) -> None:
    """Copy stores of different images, in the order of their ids, into one, piece by piece.

    Raises:
        FeatureError: their features are not of one form.
    """
    forms = [_kinds(store) for store in stores]
    for store, form in zip(stores, forms, strict=True):
        if form != forms[0]:
            raise FeatureError(f"{store.path}: its features are of another form than those before it; delete it")
    offsets = {}
    for stream in stores[0].streams:
        counts = np.concatenate([store.rows(store.ids.tolist(), stream) for store in stores])
        offsets[stream] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    parts = ([s.ids for s in stores], [s.image_sizes for s in stores], [s.digests() for s in stores])
    ids, sizes, digests = (np.concatenate(part) for part in parts)
    blocks = (arrays for store in stores for _, _, arrays in store.blocks())
    write_file(out, index=Index(ids, sizes, offsets, digests), kinds=forms[0], blocks=blocks, header=header)


def _kinds(store: FeatureStore) -> dict[str, tuple[str, tuple[int, ...]]]:
    names = [(stream, name) for stream in store.streams for name in ("values", *store.columns(stream))]
    return {f"{s}/{name}": (store.dtype(s, name), store.shape(s, name)[1:]) for s, name in names}


def _new_file(path: Path) -> Any:
    """Open a file to write whose bytes depend on its content only, and whose values start at a page of memory."""
    import h5py

    return h5py.File(
        path, "w", libver=("v108", "v108"), locking=False, alignment_threshold=4096, alignment_interval=4096
    )


def _need_room(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(path.parent).free
    if free < size:
        raise FeatureError(
            f"{path}: needs {size / 2**20:.1f} MiB, but only {free / 2**20:.1f} MiB are free; "
            "make room and run the same command again"
        )
