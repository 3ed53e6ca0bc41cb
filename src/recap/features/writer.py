"""Makes feature stores: what earlier runs have finished is kept, the rest is extracted in shards, then all is merged.

Every file is complete or absent. Equal features give equal bytes, however often the run was interrupted and in however
many parts it was made.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from recap.core.errors import FeatureError
from recap.core.files import remove_leftovers
from recap.core.log import log, progress
from recap.features.earlier import Earlier
from recap.features.layout import GRID
from recap.features.merging import merge
from recap.features.origins import Notes, Nothing, Origins
from recap.features.parts import Part, read_parts
from recap.features.records import ImageFeatures
from recap.features.shards import MERGING, SHARD, Shard, notes_of

Extract = Callable[[list[list[int]]], Iterator[ImageFeatures]]

_OURS = re.compile(r"[0-9a-f]{16}-([0-9a-f]{16}|\d{6})\.(shard|merging|origins)\.(h5|json)(\.origins\.json)?")


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
    kept: Path | None = None,
    part: Part | None = None,
) -> None:
    """Extract what earlier runs have not left, pack all into ``out``, and remove the shards.

    Args:
        out: the store; written last, in one step.
        shards: folder for the unfinished work; other files in it are left alone.
        ids: all image ids, in any order.
        shard_size: images per shard; an interrupted run loses at most one shard of work.
        dtype: float16 or float32, the type of the stored values.
        job: 16 hex digits, a hash of everything the values of an image depend on but the bytes that ``origins`` tells
            of; images of another job, or made from other bytes, are never used.
        attributes: extractor, extractor_hash, weights_sha256, made_with.
        extract: gets the image ids of the missing shards, one list per shard, and yields their features in that order.
        streams: names of the streams that every image has, the main one first.
        origins: what each image is made from (default: nothing that could change).
        kept: another name of the finished store. When ``out`` is gone and more images are asked for, those that it has
            are taken; none of them is dropped.
        part: extract a share of the shards alone, and note what all parts are merged by.

    Raises:
        FeatureError: features are not finite or do not fit together, a picture or file was changed while it was read,
            or the disk is too small or may not be written.
    """
    ordered = sorted({int(image_id) for image_id in ids})
    if not ordered:
        raise FeatureError(f"{out}: there are no images to extract features from; check the corpus")
    for path in (out, shards / "shard"):
        check_writable(path)
    remove_leftovers(shards, _OURS.pattern)
    header = {**attributes, "dtype": dtype, "job": job, "streams": " ".join(streams)}
    notes = Notes(origins or Nothing(), ordered, _noted(shards, job, kept))
    earlier = Earlier(ordered, job=job, notes=notes)
    if part is None and _is_finished(out, earlier, ordered):
        log.info(f"{out}: already there, made by this job")
        remove_shards(shards)
        return
    pieces = _pieces(ordered, earlier, shards=shards, job=job, shard_size=shard_size, out=out, kept=kept)
    own = pieces if part is None else part.share(pieces)
    missing = _missing(own, earlier)
    if len(missing) < len(own):
        log.info(f"{shards}: {len(own) - len(missing)} of {len(own)} shards are there from an earlier run")
    wanted = [piece.ids for piece in missing]
    records = iter(progress(extract(wanted), name=out.stem, unit="images", total=sum(map(len, wanted))))
    for piece in missing:
        piece.write(records, header=header, notes=notes)
    if next(records, None) is not None:
        raise FeatureError(f"{out}: the extractor gave more images than were asked for")
    if part is not None:
        part.finish(pieces, ids=ordered, header=header)
        return
    for piece in missing:
        earlier.add(piece.path)
    _finish(earlier, out, shards=shards, kept=kept, header=header, notes=notes)


def merge_parts(files: Sequence[Path], out: Path, *, shards: Path, kept: Path | None) -> None:
    """Pack what several parts have extracted into a store, and remove the shards.

    Args:
        files: what the parts say when they are finished.
        out: the store.
        shards: folder of the parts' shards.
        kept: another name of the finished store.

    Raises:
        FeatureError: the parts do not belong together, or an image is missing.
    """
    said = read_parts(files)
    job = said.header["job"]
    earlier = Earlier(said.ids, job=job, notes=None)
    unfinished = sorted(shards.glob(f"{job}-*{MERGING}"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    # The parts have compared the others with their pictures; what they made anew comes first.
    for path in [*(shards / name for name in said.shards), *unfinished, *sorted(shards.glob(f"{job}-*{SHARD}")), out]:
        earlier.add(path)
    earlier.add(kept, others=True)
    if lacking := earlier.lacks(said.ids):
        raise FeatureError(
            f"{shards}: no part has the features of image id {lacking[0]} and {len(lacking) - 1} others; delete "
            f"{files[0]} and the files beside it, and make the parts again"
        )
    notes = Notes(Nothing(), (), _noted(shards, job, kept))
    _finish(earlier, out, shards=shards, kept=kept, header=said.header, notes=notes)


def _pieces(
    ids: Sequence[int],
    earlier: Earlier,
    *,
    shards: Path,
    job: str,
    shard_size: int,
    out: Path,
    kept: Path | None,
) -> list[Shard]:
    """Return the shards that are needed beside finished stores, whatever the parts have made so far."""
    earlier.add(out)
    earlier.add(kept, others=True)
    if earlier.stores:
        log.info(f"{len(ids)} images: {len(earlier.stores)} are in an earlier store")
    rest = earlier.lacks(ids)
    groups = [rest[start : start + shard_size] for start in range(0, len(rest), shard_size)]
    own = {Shard(shards, job, group, group).path for group in groups}
    # What is left of runs that were to make other images, and of an unfinished merge.
    for path in sorted({*shards.glob(f"{job}-*{MERGING}"), *shards.glob(f"{job}-*{SHARD}")} - own):
        earlier.add(path)
    return [Shard(shards, job, group, lacking) for group in groups if (lacking := earlier.lacks(group))]


def _missing(pieces: Sequence[Shard], earlier: Earlier) -> list[Shard]:
    """Return the shards that no earlier run has finished."""
    missing = []
    for piece in pieces:
        earlier.add(piece.path)
        if not earlier.has(piece.ids):
            earlier.forget(piece.path)
            missing.append(piece)
    return missing


def _finish(
    earlier: Earlier, out: Path, *, shards: Path, kept: Path | None, header: Mapping[str, str], notes: Notes
) -> None:
    merge(earlier.stores, out, shards=shards, kept=kept, header=header)
    if kept is not None:
        notes.write(notes_of(kept), sorted(earlier.stores))
    remove_shards(shards)


def _noted(shards: Path, job: str, kept: Path | None) -> list[Path]:
    """Return the notes of earlier runs."""
    return [*([notes_of(kept)] if kept else []), *sorted(shards.glob(f"{job}-*.origins.json"))]


def _is_finished(out: Path, earlier: Earlier, ids: Sequence[int]) -> bool:
    store = earlier.add(out)
    return store is not None and store.ids.tolist() == list(ids) and earlier.has(ids)


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


def remove_shards(shards: Path) -> None:
    """Remove all shards, also those of other jobs, and the folder if that leaves it empty."""
    if not shards.is_dir():
        return
    remove_leftovers(shards, _OURS.pattern)
    for path in shards.iterdir():
        if _OURS.fullmatch(path.name):
            path.unlink()
    if not any(shards.iterdir()):
        shards.rmdir()
