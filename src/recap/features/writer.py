"""Writes feature stores: shard by shard, so that an interrupted run goes on where it was, then packed into one file.

Every file is whole or absent. Equal features give equal bytes, however often the run was interrupted.
"""

from __future__ import annotations

import errno
import hashlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from recap.core.atomic import atomic_path
from recap.core.errors import FeatureError
from recap.core.log import progress, say
from recap.features.store import GRID, LAYOUT, FeatureStore, feature_hash, index_checksum

_SHARD = re.compile(r"[0-9a-f]{16}-\d{6}\.shard\.h5")
_PIECE = 2**24  # bytes copied at a time


@dataclass(frozen=True)
class ImageFeatures:
    """The features of one image: values float [N, dim], size (width, height) in pixels."""

    image_id: int
    size: tuple[int, int]
    values: np.ndarray


Extract = Callable[[list[list[int]]], Iterator[ImageFeatures]]


def build_store(
    *,
    out: Path,
    shards: Path,
    ids: Sequence[int],
    shard_size: int,
    dtype: str,
    job: str,
    attributes: Mapping[str, str],
    extract: Extract,
    stream: str = GRID,
) -> None:
    """Extract what no earlier run left in ``shards``, pack all into ``out``, and remove the shards.

    Args:
        out: the store; written last, in one step.
        shards: folder for the unfinished work; other files in it are left alone.
        ids: all image ids.
        shard_size: images a shard; an interrupted run loses at most one shard of work.
        dtype: float16 or float32, the type of the stored values.
        job: 16 hex digits, a hash of everything the values depend on; shards of another job are never used.
        attributes: extractor, extractor_hash, weights_sha256, made_with.
        extract: gets the image ids of the missing shards, a list a shard, and yields their features in that order.
        stream: name of the stream in the store.

    Raises:
        FeatureError: features are not finite or do not fit together, or the disk is too small.
    """
    if finished(out, job, ids, stream):
        say(f"{out}: already there, made by this very job")
        _clear(shards)
        return
    ordered = sorted({int(image_id) for image_id in ids})
    if not ordered:
        raise FeatureError(f"{out}: there are no images to extract features from; check the corpus")
    groups = [ordered[start : start + shard_size] for start in range(0, len(ordered), shard_size)]
    paths = [shards / f"{job}-{number:06d}.shard.h5" for number in range(len(groups))]
    _remove_parts(shards, out)
    missing = [number for number, path in enumerate(paths) if not finished(path, job, groups[number], stream)]
    if len(missing) < len(groups):
        say(f"{shards}: {len(groups) - len(missing)} of {len(groups)} shards are there from an earlier run")
    wanted = [groups[number] for number in missing]
    records = iter(progress(extract(wanted), name=out.stem, unit="images", total=sum(map(len, wanted))))
    header = {**attributes, "dtype": dtype, "job": job, "layout": LAYOUT}
    for number in missing:
        _write_shard(paths[number], groups[number], records, dtype=dtype, header=header, stream=stream)
    if next(records, None) is not None:
        raise FeatureError(f"{out}: the extractor gave more images than were asked for")
    _assemble(paths, out, header=header, stream=stream)
    _clear(shards)


def finished(path: Path, job: str, ids: Sequence[int], stream: str = GRID) -> bool:
    """Tell whether ``path`` is a whole store or shard of exactly these images, made by this job."""
    if not path.exists():
        return False
    try:
        store = FeatureStore(path, stream)
        store.verify()
    except FeatureError as error:
        say(f"{error} (doing that now)")
        return False
    return store.attributes["job"] == job and np.array_equal(store.ids, np.unique(np.asarray(ids, dtype=np.int64)))


def _write_shard(
    path: Path, ids: list[int], records: Iterator[ImageFeatures], *, dtype: str, header: dict[str, str], stream: str
) -> None:
    """Take the features of one shard's images from ``records`` and write them."""
    arrays: list[np.ndarray] = []
    sizes: list[tuple[int, int]] = []
    for record, image_id in zip(islice(records, len(ids)), ids, strict=True):
        if record.image_id != image_id:
            raise FeatureError(f"{path}: the extractor gave image id {record.image_id} where {image_id} was asked for")
        arrays.append(_checked(record, dtype, arrays[0].shape[1] if arrays else None))
        sizes.append(record.size)
    offsets = np.concatenate([[0], np.cumsum([len(array) for array in arrays])]).astype(np.int64)
    index = (np.asarray(ids, np.int64), np.asarray(sizes, np.int32).reshape(-1, 2), offsets)
    _write(path, index, iter(arrays), width=arrays[0].shape[1], header=header, stream=stream)


def _checked(record: ImageFeatures, dtype: str, width: int | None) -> np.ndarray:
    """Return the values of one image in the stored type; numbers that are not finite are refused."""
    values = record.values
    if values.ndim != 2 or 0 in values.shape or width not in (None, values.shape[1]):
        raise FeatureError(
            f"image id {record.image_id}: features of shape {list(values.shape)}, expected [rows, {width or 'dim'}]; "
            "the extractor must give every image vectors of one length"
        )
    with np.errstate(over="ignore"):
        stored = values.astype(dtype)
    if not np.isfinite(stored).all():
        if np.isfinite(values).all():
            reason, remedy = "exceed the range of float16", "set `dtype: float32`"
        else:
            reason, remedy = "hold NaN or infinite values", "look at the picture and at the extractor's weights"
        raise FeatureError(f"image id {record.image_id}: the features {reason}; {remedy}")
    return stored


def _assemble(paths: Sequence[Path], out: Path, *, header: dict[str, str], stream: str) -> None:
    """Copy all shards into one store, piece by piece."""
    stores = [FeatureStore(path, stream) for path in paths]
    widths = {store.dim for store in stores}
    if len(widths) > 1:
        raise FeatureError(f"{paths[0].parent}: shards with vectors of different lengths {sorted(widths)}; delete them")
    counts = [store.rows(store.ids.tolist()) for store in stores]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64)
    ids, sizes = (np.concatenate(parts) for parts in ([s.ids for s in stores], [s.image_sizes for s in stores]))
    pieces = (piece for store in stores for piece in store.pieces(_PIECE))
    _write(out, (ids, sizes, offsets), pieces, width=widths.pop(), header=header, stream=stream)


def _write(
    path: Path,
    index: tuple[np.ndarray, np.ndarray, np.ndarray],
    pieces: Iterator[np.ndarray],
    *,
    width: int,
    header: dict[str, str],
    stream: str,
) -> None:
    """Write one file: the index (ids, sizes, offsets), the values as they come, then what the file says of itself."""
    ids, sizes, offsets = index
    shape = (int(offsets[-1]), width)
    digest = hashlib.sha256()
    _need_room(path, shape[0] * width * np.dtype(header["dtype"]).itemsize + 2**20)
    with atomic_path(path) as temporary, _disk_errors(), _new_file(temporary) as file:
        file.create_dataset("ids", data=ids, track_times=False)
        file.create_dataset("image_sizes", data=sizes, track_times=False)
        group = file.create_group(stream)
        group.create_dataset("offsets", data=offsets, track_times=False)
        values = group.create_dataset("values", shape, header["dtype"], track_times=False, fill_time="never")
        start = 0
        for piece in pieces:
            values[start : start + len(piece)] = piece
            digest.update(np.ascontiguousarray(piece).data)
            start += len(piece)
        found = {"checksum": digest.hexdigest(), "index_checksum": index_checksum(ids, sizes, offsets)}
        file.attrs.update({**header, **found, "feature_hash": feature_hash({**header, **found})})


def _new_file(path: Path) -> Any:
    """Open a file to write whose bytes depend on its content only, and whose values start at a page of memory."""
    import h5py

    return h5py.File(
        path, "w", libver=("v108", "v108"), locking=False, alignment_threshold=4096, alignment_interval=4096
    )


@contextmanager
def _disk_errors() -> Iterator[None]:
    """Give HDF5's errors of a full disk the error number that they carry only in their text."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        if f"errno = {errno.ENOSPC}" in str(error):
            raise OSError(errno.ENOSPC, str(error)) from error
        raise


def _need_room(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(path.parent).free
    if free < size:
        raise FeatureError(
            f"{path}: needs {size / 2**20:.0f} MiB, but only {free / 2**20:.0f} MiB are free; "
            "make room and run the same command again"
        )


def _remove_parts(shards: Path, out: Path) -> None:
    """Remove the unfinished files of a run that was killed."""
    for part in [*shards.glob(".*.shard.h5.*.part"), *out.parent.glob(f".{out.name}.*.part")]:
        part.unlink(missing_ok=True)


def _clear(shards: Path) -> None:
    """Remove all shards, also those of other jobs, and the folder if that leaves it empty."""
    if not shards.is_dir():
        return
    _remove_parts(shards, shards / "none")
    for path in shards.iterdir():
        if _SHARD.fullmatch(path.name):
            path.unlink()
    if not any(shards.iterdir()):
        shards.rmdir()
