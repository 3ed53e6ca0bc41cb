"""Writes feature stores in shards, so that an interrupted run continues where it stopped, then packs them.

Every file is complete or absent. Equal features give equal bytes, however often the run was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from recap.core.errors import FeatureError
from recap.core.log import log
from recap.core.progress import progress
from recap.features.layout import GRID
from recap.features.origins import Nothing, Origins, joint_hash
from recap.features.packing import join
from recap.features.records import ImageFeatures
from recap.features.shards import Shard, check_writable, finished, remove_shards, remove_unfinished
from recap.features.store import FeatureStore

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
    origins: Origins | None = None,
) -> None:
    """Extract what earlier runs have not left in ``shards``, pack all into ``out``, and remove the shards.

    Args:
        out: the store; written last, in one step.
        shards: folder for the unfinished work; other files in it are left alone.
        ids: all image ids.
        shard_size: images per shard; an interrupted run loses at most one shard of work.
        dtype: float16 or float32, the type of the stored values.
        job: 16 hex digits, a hash of everything the values depend on but the bytes that ``origins`` tells of; shards of
            another job, or made from other bytes, are never used.
        attributes: extractor, extractor_hash, weights_sha256, made_with.
        extract: gets the image ids of the missing shards, one list per shard, and yields their features in that order.
        streams: names of the streams that every image has, the main one first.
        origins: what each image is made from (default: nothing that could change).

    Raises:
        FeatureError: features are not finite or do not fit together, a picture or file was changed while it was read,
            or the disk is too small or may not be written.
    """
    ordered = sorted({int(image_id) for image_id in ids})
    if not ordered:
        raise FeatureError(f"{out}: there are no images to extract features from; check the corpus")
    for path in (out, shards / "shard"):
        check_writable(path)
    origins = origins or Nothing()
    groups = [ordered[start : start + shard_size] for start in range(0, len(ordered), shard_size)]
    pieces = [Shard(shards, job, number, group, origins) for number, group in enumerate(groups)]
    if finished(out, job, ordered, made_from=lambda: _made_from(pieces)):
        log.info(f"{out}: already there, made by this job")
        remove_shards(shards)
        return
    remove_unfinished(shards)
    missing = [piece for piece in pieces if not piece.finished()]
    if len(missing) < len(pieces):
        log.info(f"{shards}: {len(pieces) - len(missing)} of {len(pieces)} shards are there from an earlier run")
    wanted = [piece.ids for piece in missing]
    records = iter(progress(extract(wanted), name=out.stem, unit="images", total=sum(map(len, wanted))))
    header = {**attributes, "dtype": dtype, "job": job, "streams": " ".join(streams)}
    for piece in missing:
        piece.write(records, header=header)
    if next(records, None) is not None:
        raise FeatureError(f"{out}: the extractor gave more images than were asked for")
    header["made_from"] = _made_from(pieces)
    join([FeatureStore(piece.path) for piece in pieces], out, header=header)
    remove_shards(shards)


def _made_from(pieces: Sequence[Shard]) -> str:
    """Return the hash of what all images are made from, in the order of the shards."""
    return joint_hash([content for piece in pieces for content in piece.made_from])
