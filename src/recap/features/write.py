"""Makes feature stores: what earlier runs have finished is kept,
the rest is extracted in shards, then all is merged.

Every file is complete or absent, but for the store that is filled from the shards: it is laid out
first, a shard is removed when its images are on the disk, and after a kill the images that match
their digests are finished. So the disk holds one shard twice at most. Equal features give equal
bytes, however often the run was interrupted and in however many parts, each a job with its own GPU,
it was made.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from recap.core.documents import differences, read_json, write_json
from recap.core.errors import FeatureError, listed
from recap.core.files import atomic_path, remove_leftovers, writing
from recap.core.hashing import value_hash
from recap.core.log import log, progress
from recap.features.records import GRID, VALUES, ImageFeatures, image_digest, stored_arrays
from recap.features.store import MAGIC, FeatureStore, Index, Rows

Extract = Callable[[list[list[int]]], Iterator[ImageFeatures]]
# The files that an image is made from; None: there is no such image any more.
FilesOf = Callable[[int], Iterable[Path] | None]
Form = Mapping[str, np.dtype]  # a row of each array by its path (``grid/values``), with its shape
# stores and shards with the ids of images, ascending
Sources = dict[Path, tuple[FeatureStore, list[int]]]

SHARD = ".shard.h5"
MERGING = ".merging.h5"  # a store that is being filled from shards
_OURS = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}\.(shard|merging)\.h5")
_PAGE = 4096  # bytes


@dataclass(frozen=True)
class Part:
    """One of several parts of a store: a share of its shards."""

    number: int  # from 0
    count: int
    done: Path  # the file that says that the part is finished, and how all are merged

    @staticmethod
    def of(text: str, done: Path) -> Part:
        """Return part ``2/4``: the second of four."""
        number, _, count = text.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise FeatureError(
                f"--part {text}: expected NUMBER/COUNT, such as 2/4 for the second of four"
            )
        return Part(int(number) - 1, int(count), done)


@dataclass(frozen=True)
class Finished:
    """What a finished part says: the same as every other part of the store."""

    header: dict[str, str]
    ids: list[int]  # of all images, ascending


def build_store(
    *,
    out: Path,  # the store; written last, in one step
    shards: Path,  # folder for the unfinished work; other files in it are left alone
    ids: Sequence[int],  # all image ids, in any order
    shard_size: int,  # images per shard; an interrupted run loses at most one shard of work
    dtype: str,  # float16 or float32, the type of the stored values
    job: str,  # 16 hex digits, a hash of all that an image's values depend on but its `files`
    attributes: Mapping[str, str],  # extractor, extractor_hash, weights_sha256, made_with
    # gets the ids of the missing images, one list per shard, and yields features in that order
    extract: Extract,
    # names of the streams that every image has, the main one first
    streams: Sequence[str] = (GRID,),
    # what each image is made from
    files: FilesOf = lambda image_id: (),
    # another name of the store, which grows from it when `out` is gone and drops no image
    kept: Path | None = None,
    # extract a share of the shards alone, and note what all parts are merged by
    part: Part | None = None,
) -> None:
    """Extract what earlier runs have not left, pack all into ``out``, and remove the shards.

    Images of another ``job``, or with files that have changed since, are extracted again.
    """
    ordered = sorted({int(image_id) for image_id in ids})
    if not ordered:
        raise FeatureError(f"{out}: there are no images to extract features from; check the corpus")
    for path in (out, shards / "shard"):
        _check_writable(path)
    remove_leftovers(shards, _OURS.pattern)
    header = {**attributes, "dtype": dtype, "job": job, "streams": " ".join(streams)}
    groups = [ordered[start : start + shard_size] for start in range(0, len(ordered), shard_size)]
    own = groups if part is None else groups[part.number :: part.count]
    there = _there(
        _earlier(out, kept, shards, job), set(chain.from_iterable(own)), grown=kept, files=files
    )
    missing = []
    for group in own:
        lacking = [image_id for image_id in group if image_id not in there]
        if lacking:
            missing.append(lacking)
    total = sum(map(len, missing))
    records = iter(progress(extract(missing), name=out.stem, unit="images", total=total))
    for group in missing:
        path = shards / f"{job}-{value_hash(group)}{SHARD}"
        _write_shard(path, group, records, header=header)
        there |= dict.fromkeys(group, FeatureStore(path))
    if part is not None:
        write_json(part.done, {"header": header, "ids": sorted({*ordered, *there})})
        return
    _finish(there, out, shards=shards, kept=kept, header=header)


def merge_parts(files: Sequence[Path], out: Path, *, shards: Path, kept: Path | None) -> None:
    """Pack what several parts have extracted into a store,
    and remove the shards; ``files``: `Part.done` of each."""
    parts = [read_json(file, Finished) for file in files]
    first = parts[0]
    for file, part in zip(files, parts, strict=True):
        if part != first:
            differing = listed(differences(first.header, part.header)) or "its images"
            raise FeatureError(
                f"{file}: differs from {files[0]} ({differing}); delete both and make all parts on "
                "machines of one kind, or set `extraction_parts: 1`"
            )
    there = _there(_earlier(out, kept, shards, first.header["job"]), set(first.ids))
    lacking = [image_id for image_id in first.ids if image_id not in there]
    if lacking:
        raise FeatureError(
            f"{shards}: no part has the features of image id {lacking[0]} and {len(lacking) - 1} "
            f"others; delete {files[0]} and the files beside it, and make the parts again"
        )
    _finish(there, out, shards=shards, kept=kept, header=first.header)


def _earlier(out: Path, kept: Path | None, shards: Path, job: str) -> list[FeatureStore]:
    """Open what earlier runs of a job have left: stores, shards and unfinished merges, the newest
    first."""
    paths = [path for path in (kept, out) if path is not None and path.exists()]
    paths += shards.glob(f"{job}-*.h5")
    stores = []
    for path in sorted(paths, key=_written, reverse=True):
        try:
            store = FeatureStore(path)
        except FeatureError as error:
            log.warning(f"{error} (doing that now)")
            continue
        if store.attributes.get("job") == job:
            stores.append(store)
    return stores


def _there(
    stores: Sequence[FeatureStore],
    ids: Set[int],
    *,
    grown: Path | None = None,
    files: FilesOf = lambda image_id: (),
) -> dict[int, FeatureStore]:
    """Return which of some images need no extraction, each with the first store that has it.

    Of the store that is ``grown`` all images are returned.
    """
    there: dict[int, FeatureStore] = {}
    for store in stores:
        wanted = [
            image_id
            for image_id in store.ids.tolist()
            if image_id not in there and (image_id in ids or store.path == grown)
        ]
        written = _written(store.path)
        taken = []
        for image_id, position in zip(wanted, store.positions(wanted).tolist(), strict=True):
            if store.is_intact(position) and _is_older(files(image_id), written):
                taken.append(image_id)
        there |= dict.fromkeys(taken, store)
        if len(taken) < len(wanted):
            log.warning(
                f"{store.path}: {len(wanted) - len(taken)} images are unfinished or damaged, or "
                "their files have changed since (making them again)"
            )
        if taken:
            log.info(f"{store.path}: {len(taken)} images are there from an earlier run")
    return there


def _written(path: Path) -> int:
    return path.stat().st_mtime_ns


def _is_older(files: Iterable[Path] | None, written: int) -> bool:
    """Return whether files were last changed before some time, in ns; nobody can set the time of
    a change."""
    if files is None:
        return False
    return all(path.exists() and path.stat().st_ctime_ns < written for path in files)


def _finish(
    there: Mapping[int, FeatureStore],
    out: Path,
    *,
    shards: Path,
    kept: Path | None,
    header: Mapping[str, str],
) -> None:
    """Write the store of all finished images, and remove the shards that they come from."""
    sources: Sources = {}
    for image_id, store in sorted(there.items()):
        sources.setdefault(store.path, (store, []))[1].append(image_id)
    path, (store, ids) = next(iter(sources.items()))
    has_all = len(sources) == 1 and len(ids) == len(store)
    if has_all and path == out:
        log.info(f"{out}: already there, made by this job")
    elif has_all and path == kept:
        _or_copy(_link, kept, out)
    else:
        _merge(sources, out, shards=shards, kept=kept, header=header)
    _remove_shards(shards)


def _check_writable(path: Path) -> None:
    """Create the folder of a file that will be written, before hours are spent on its content."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    if path.is_dir():
        raise FeatureError(f"{path}: is a folder; name a file in it")


def _remove_shards(shards: Path) -> None:
    """Remove all shards, also those of other jobs, and the folder if that leaves it empty."""
    remove_leftovers(shards, _OURS.pattern)
    for path in shards.glob("*.h5"):
        if _OURS.fullmatch(path.name):
            path.unlink()
    if shards.is_dir() and not any(shards.iterdir()):
        shards.rmdir()


# ---- files: laid out, then filled


def _lay_out(path: Path, index: Index, form: Form, header: Mapping[str, str]) -> dict[str, Rows]:
    """Write a file that has everything but features, and return where these belong.

    Equal content gives equal bytes.
    """
    import h5py

    # Allocated at once and not written,
    # so that features can be put at their places without HDF5, in any order.
    places = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    places.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    places.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    small = {"ids": index.ids, "image_sizes": index.sizes, "digests": index.digests}
    small |= {f"{stream}/offsets": offsets for stream, offsets in index.offsets.items()}
    with h5py.File(
        path,
        "w",
        locking=False,
        userblock_size=_PAGE,
        # Values start at a page of memory.
        alignment_threshold=_PAGE,
        alignment_interval=_PAGE,
        libver=("v108", "v108"),  # this version of the format has checksums of its structure
    ) as file:
        for name, array in small.items():
            file.create_dataset(name, data=array, track_times=False)
        rows = {}
        for name, row in form.items():
            count = int(index.offsets[name.split("/")[0]][-1])
            data = file.create_dataset(
                name, (count, *row.shape), row.base, dcpl=places, track_times=False
            )
            rows[name] = Rows(row, count, data.id.get_offset())
        # Texts of fixed length lie under these checksums;
        # those of any length do not, and damaged ones hang HDF5.
        file.attrs.update(
            {key: np.bytes_(text.encode()) for key, text in index.attributes(header).items()}
        )
    with path.open("r+b") as block:
        block.write(MAGIC)
    return rows


def _fill(
    path: Path,
    places: Mapping[str, Rows],
    offsets: Mapping[str, np.ndarray],  # of each stream
    images: Iterable[tuple[int, Mapping[str, np.ndarray]]],  # position and arrays by their path
) -> None:
    """Write images to their places in a file, and wait until they are on the disk."""
    with path.open("r+b") as file:
        for position, arrays in images:
            for name, array in arrays.items():
                first = int(offsets[name.split("/")[0]][position])
                file.seek(places[name].place(first))
                file.write(np.ascontiguousarray(array).data)
        file.flush()
        os.fsync(file.fileno())


def _write_shard(
    path: Path,
    ids: Sequence[int],
    records: Iterator[ImageFeatures],
    *,
    header: Mapping[str, str],
) -> None:
    """Take the features of a shard's images from ``records`` and write them.

    The shard is itself a feature store.
    """
    streams = header["streams"].split()
    common: Form = {}
    images: list[dict[str, np.ndarray]] = []
    sizes: list[tuple[int, int]] = []
    for record, image_id in zip(islice(records, len(ids)), ids, strict=True):
        if record.image_id != image_id:
            raise FeatureError(
                f"{path}: the extractor gave image id {record.image_id} where {image_id} was asked "
                "for"
            )
        arrays = stored_arrays(record, dtype=header["dtype"], streams=streams)
        form = {name: np.dtype((array.dtype, array.shape[1:])) for name, array in arrays.items()}
        images.append(arrays)
        sizes.append(record.size)
        common = form if len(images) == 1 else common
        if form != common:
            raise FeatureError(
                f"image id {image_id}: has {_shapes(form)}, the images before it "
                f"{_shapes(common)}; the extractor must give every image the same arrays, with "
                "vectors of one length"
            )
    offsets = {}
    for stream in streams:
        offsets[stream] = _offsets([len(arrays[f"{stream}/{VALUES}"]) for arrays in images])
    index = Index(
        np.asarray(ids, np.int64),
        np.asarray(sizes, np.int32).reshape(-1, 2),
        np.frombuffer(b"".join(map(image_digest, images)), np.uint8).reshape(-1, 32),
        offsets,
    )
    with atomic_path(path) as temporary:
        places = _lay_out(temporary, index, common, header)
        _fill(temporary, places, offsets, enumerate(images))


def _shapes(form: Form) -> dict[str, list[Any]]:
    return {name: ["rows", *row.shape] for name, row in form.items()}


def _offsets(counts: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


# ---- merging


def _merge(
    sources: Sources, out: Path, *, shards: Path, kept: Path | None, header: Mapping[str, str]
) -> None:
    """Lay a store out, copy images into it, shard by shard, and give it its names."""
    form = _common_form([store for store, _ in sources.values()])
    index = _joint_index(sources.values(), header["streams"].split())
    content = index.attributes(header)["feature_hash"]
    unfinished = shards / f"{header['job']}-{content}{MERGING}"
    with writing(unfinished):
        if unfinished not in sources:
            with atomic_path(unfinished) as temporary:
                _lay_out(temporary, index, form, header)
        others = {*shards.glob(f"*{SHARD}"), *shards.glob(f"*{MERGING}")}
        for path in others - {unfinished, *sources}:
            path.unlink()
        target = FeatureStore(unfinished)
        for path, (store, ids) in sources.items():
            if path != unfinished:
                images = map(store.stored, store.positions(ids).tolist())
                places = target.positions(ids).tolist()
                _fill(unfinished, target.arrays, target.offsets, zip(places, images, strict=True))
            if path.name.endswith(SHARD):
                path.unlink()
        try:
            if kept is not None:
                _link(unfinished, kept)
        except OSError as error:
            reason = f"the disk has no second name for the store ({error.strerror})"
            log.warning(f"{kept}: {reason}, so it cannot grow later")
        _or_copy(Path.replace, unfinished, out)
        unfinished.unlink(missing_ok=True)


def _common_form(stores: Sequence[FeatureStore]) -> Form:
    """Return the form of the arrays that all of these stores have."""
    form: Form = {}
    for store in stores:
        own = {name: rows.row for name, rows in store.arrays.items()}
        form = form or own
        if own != form:
            raise FeatureError(
                f"{store.path}: its features are of another form than those before it; delete it"
            )
    return form


def _joint_index(
    sources: Collection[tuple[FeatureStore, list[int]]], streams: Sequence[str]
) -> Index:
    """Return the index of images from those of their stores."""
    ids = np.concatenate([np.asarray(own, np.int64) for _, own in sources])
    order = np.argsort(ids)

    def joint(columns: Iterable[np.ndarray]) -> np.ndarray:
        return np.concatenate(list(columns))[order]

    places = [(store, store.positions(own)) for store, own in sources]
    sizes = joint(store.image_sizes[rows] for store, rows in places)
    digests = joint(store.digests[rows] for store, rows in places)
    offsets = {}
    for stream in streams:
        offsets[stream] = _offsets(joint(store.rows(own, stream) for store, own in sources))
    return Index(ids[order], sizes, digests, offsets)


def _link(path: Path, name: Path) -> None:
    name.parent.mkdir(parents=True, exist_ok=True)
    temporary = name.with_name(f".{name.name}.link")
    temporary.unlink(missing_ok=True)
    temporary.hardlink_to(path)
    temporary.replace(name)


def _or_copy(give: Callable[[Path, Path], object], path: Path, out: Path) -> None:
    """Give a finished file another name, by a link or a move; onto another disk it is copied."""
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        give(path, out)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with atomic_path(out) as temporary:
            shutil.copyfile(path, temporary)
