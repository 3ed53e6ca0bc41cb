"""Finished images from stores and shards, in one store: no second copy of the shards, whenever it is killed.

The store is laid out first, then filled from one shard after the other, and a shard is removed when its images are on
the disk. So the disk holds one shard twice at most. After a kill, the images that match their digests are finished, and
the remaining shards have the others.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from recap.core.errors import FeatureError
from recap.core.files import atomic_path, writing
from recap.core.log import log
from recap.features.packing import Index, Kinds, fill, lay_out, need_room
from recap.features.shards import MERGING, SHARD, set_hash
from recap.features.store import FeatureStore


def merge(
    stores: Mapping[int, FeatureStore], out: Path, *, shards: Path, kept: Path | None, header: Mapping[str, str]
) -> None:
    """Write a store of these images, and remove the shards that they come from.

    Args:
        stores: image id -> the store or shard that holds it.
        out: the store.
        shards: folder of the shards, and of the unfinished store.
        kept: another name of the same file, which remains when ``out`` is deleted.
        header: attributes of the store.

    Raises:
        FeatureError: features are not of one form, or the disk is too small.
    """
    sources = _by_store(stores)
    if kept is not None and [(store.path, len(store)) for store, _ in sources] == [(kept, len(stores))]:
        _give(kept, out)
        return
    kinds = _one_form([store for store, _ in sources])
    index = _index(sources, list(dict.fromkeys(name.split("/")[0] for name in kinds)))
    name = set_hash([*index.ids.tolist(), *index.digests.view("<i8").ravel().tolist()])
    unfinished = shards / f"{header['job']}-{name}{MERGING}"
    with writing(unfinished):
        if unfinished not in [store.path for store, _ in sources]:
            with atomic_path(unfinished) as temporary:
                lay_out(temporary, index=index, kinds=kinds, header=header)
        needed = {unfinished, *(store.path for store, _ in sources)}
        for path in {*shards.glob(f"*{SHARD}"), *shards.glob(f"*{MERGING}")} - needed:
            path.unlink()
        sources = [(store, ids) for store, ids in sources if store.path != unfinished]
        _need_room(unfinished, sources, kinds)
        target = FeatureStore(unfinished)
        for store, ids in sources:
            _copy(store, target, ids)
            if _is_shard(store):
                store.path.unlink()
        if kept is not None:
            _keep(unfinished, kept)
        _place(unfinished, out)


def _by_store(stores: Mapping[int, FeatureStore]) -> list[tuple[FeatureStore, list[int]]]:
    """Return each store or shard with the ids of its images, ascending."""
    found: dict[Path, tuple[FeatureStore, list[int]]] = {}
    for image_id in sorted(stores):
        store = stores[image_id]
        found.setdefault(store.path, (store, []))[1].append(image_id)
    return list(found.values())


def _is_shard(store: FeatureStore) -> bool:
    return store.path.name.endswith(SHARD)


def _copy(store: FeatureStore, target: FeatureStore, ids: Sequence[int]) -> None:
    """Copy images to their places, and wait until they are on the disk."""
    for first, last in _runs(store.positions(ids), target.positions(ids)):
        position = int(target.positions([int(store.ids[first])])[0])
        fill(target.places(), target.starts(position), (arrays for _, _, arrays in store.blocks(first, last)))
    with target.path.open("rb") as written:
        os.fsync(written.fileno())


def _runs(here: np.ndarray, there: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield first and last + 1 of the positions of images that are neighbors both here and there."""
    breaks = np.flatnonzero((np.diff(here) != 1) | (np.diff(there) != 1)) + 1
    for run in np.split(here, breaks):
        yield int(run[0]), int(run[-1]) + 1


def _index(sources: Sequence[tuple[FeatureStore, list[int]]], streams: Sequence[str]) -> Index:
    """Return the index of images from those of their stores."""
    ids = np.sort(np.concatenate([np.asarray(own, np.int64) for _, own in sources]))
    sizes, counts = np.zeros((len(ids), 2), np.int32), {stream: np.zeros(len(ids), np.int64) for stream in streams}
    digests, origins = np.zeros((len(ids), 32), np.uint8), np.zeros((len(ids), 32), np.uint8)
    for store, own in sources:
        assert store.origins is not None
        positions, places = store.positions(own), np.searchsorted(ids, own)
        sizes[places], digests[places] = store.image_sizes[positions], store.digests()[positions]
        origins[places] = store.origins[positions]
        for stream in streams:
            counts[stream][places] = store.rows(own, stream)
    offsets = {stream: np.concatenate([[0], np.cumsum(count)]).astype(np.int64) for stream, count in counts.items()}
    return Index(ids, sizes, digests, origins, offsets)


def _one_form(stores: Sequence[FeatureStore]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return types and shapes of the arrays, which all stores must share."""
    forms = [
        {
            f"{stream}/{name}": (store.dtype(stream, name), store.shape(stream, name)[1:])
            for stream in store.streams
            for name in ("values", *store.columns(stream))
        }
        for store in stores
    ]
    for store, form in zip(stores, forms, strict=True):
        if form != forms[0]:
            raise FeatureError(f"{store.path}: its features are of another form than those before it; delete it")
    return forms[0]


def _need_room(path: Path, sources: Sequence[tuple[FeatureStore, list[int]]], kinds: Kinds) -> None:
    """Check that there is room for what is copied from stores that stay, and for the largest shard."""
    needed = {}
    for stream in {name.split("/")[0] for name in kinds}:
        rows = [(_is_shard(store), int(store.rows(own, stream).sum())) for store, own in sources]
        passing = max((count for shard, count in rows if shard), default=0)
        needed[stream] = sum(count for shard, count in rows if not shard) + passing
    need_room(path, kinds, needed)


def _keep(path: Path, kept: Path) -> None:
    """Give a finished file another name; where the disk cannot, the store is extracted anew when it is to grow."""
    try:
        _link(path, kept)
    except OSError as error:
        log.warning(f"{kept}: the disk has no second name for the store ({error.strerror}), so it cannot grow later")


def _link(path: Path, name: Path) -> None:
    name.parent.mkdir(parents=True, exist_ok=True)
    temporary = name.with_name(f".{name.name}.link")
    temporary.unlink(missing_ok=True)
    temporary.hardlink_to(path)
    temporary.replace(name)


def _give(kept: Path, out: Path) -> None:
    """Give a kept store its place among the results again."""
    try:
        _link(kept, out)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy_file(kept, out)


def _copy_file(path: Path, out: Path) -> None:
    with atomic_path(out) as temporary:
        shutil.copyfile(path, temporary)


def _place(path: Path, out: Path) -> None:
    """Move the finished file to its name; onto another disk it is copied."""
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.replace(out)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy_file(path, out)
        path.unlink()
