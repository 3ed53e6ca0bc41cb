"""Writes feature stores: shard by shard, so that an interrupted run goes on where it was, then packed into one file.

Every file is whole or absent. Equal features give equal bytes, however often the run was interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from recap.core.errors import FeatureError
from recap.core.log import progress, say
from recap.features.layout import GRID, image_digest
from recap.features.packing import Index, join, write_file
from recap.features.records import ImageFeatures, stored_arrays
from recap.features.store import FeatureStore

__all__ = ["Extract", "ImageFeatures", "build_store", "finished"]

_SHARD = re.compile(r"[0-9a-f]{16}-\d{6}\.shard\.h5")

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
    streams: Sequence[str] = (GRID,),
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
        streams: names of the streams that every image has, the main one first.

    Raises:
        FeatureError: features are not finite or do not fit together, or the disk is too small.
    """
    if finished(out, job, ids):
        say(f"{out}: already there, made by this very job")
        _clear(shards)
        return
    ordered = sorted({int(image_id) for image_id in ids})
    if not ordered:
        raise FeatureError(f"{out}: there are no images to extract features from; check the corpus")
    groups = [ordered[start : start + shard_size] for start in range(0, len(ordered), shard_size)]
    paths = [shards / f"{job}-{number:06d}.shard.h5" for number in range(len(groups))]
    _remove_parts(shards, out)
    missing = [number for number, path in enumerate(paths) if not finished(path, job, groups[number])]
    if len(missing) < len(groups):
        say(f"{shards}: {len(groups) - len(missing)} of {len(groups)} shards are there from an earlier run")
    wanted = [groups[number] for number in missing]
    records = iter(progress(extract(wanted), name=out.stem, unit="images", total=sum(map(len, wanted))))
    header = {**attributes, "dtype": dtype, "job": job, "streams": " ".join(streams)}
    for number in missing:
        _write_shard(paths[number], groups[number], records, header=header)
    if next(records, None) is not None:
        raise FeatureError(f"{out}: the extractor gave more images than were asked for")
    join([FeatureStore(path) for path in paths], out, header=header)
    _clear(shards)


def finished(path: Path, job: str, ids: Sequence[int]) -> bool:
    """Tell whether ``path`` is a whole store or shard of exactly these images, made by this job."""
    if not path.exists():
        return False
    try:
        store = FeatureStore(path)
        store.verify()
    except FeatureError as error:
        say(f"{error} (doing that now)")
        return False
    return store.attributes["job"] == job and np.array_equal(store.ids, np.unique(np.asarray(ids, dtype=np.int64)))


def _write_shard(path: Path, ids: list[int], records: Iterator[ImageFeatures], *, header: dict[str, str]) -> None:
    """Take the features of one shard's images from ``records`` and write them."""
    streams = header["streams"].split()
    images: list[dict[str, np.ndarray]] = []
    sizes: list[tuple[int, int]] = []
    for record, image_id in zip(islice(records, len(ids)), ids, strict=True):
        if record.image_id != image_id:
            raise FeatureError(f"{path}: the extractor gave image id {record.image_id} where {image_id} was asked for")
        arrays = stored_arrays(record, dtype=header["dtype"], streams=streams)
        _same_form(image_id, arrays, images[0] if images else arrays)
        images.append(arrays)
        sizes.append(record.size)
    offsets = {}
    for stream in streams:
        counts = [len(arrays[f"{stream}/values"]) for arrays in images]
        offsets[stream] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    digests = np.frombuffer(b"".join(map(image_digest, images)), np.uint8).reshape(-1, 32)
    index = Index(np.asarray(ids, np.int64), np.asarray(sizes, np.int32).reshape(-1, 2), offsets, digests)
    kinds = {name: (array.dtype.name, array.shape[1:]) for name, array in images[0].items()}
    write_file(path, index=index, kinds=kinds, blocks=images, header=header)


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
