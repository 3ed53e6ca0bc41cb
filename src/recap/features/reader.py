"""Reads batches of a store ahead of their use, in worker processes, and an order that a cold disk likes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from recap.features.store import FeatureStore

if TYPE_CHECKING:
    import torch


class _Reading:
    """What a worker process does: ids of a batch -> its features."""

    def __init__(self, store: FeatureStore, streams: Sequence[str]) -> None:
        self.store, self.streams = store, streams

    def __getitem__(self, image_ids: Sequence[int]) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        return {stream: self.store.read(image_ids, stream) for stream in self.streams}


def read_batches(
    store: FeatureStore, batches: Iterable[Sequence[int]], *, workers: int = 0, streams: Sequence[str] = ()
) -> Iterator[dict[str, tuple[torch.Tensor, torch.Tensor]]]:
    """Yield values [B, N, dim] and mask [B, N] of each stream, by its name, for batches of image ids, in their order.

    Args:
        store: where from.
        batches: image ids of each batch.
        workers: processes that read two batches ahead each; 0 reads when asked. A page that is in memory is read
            faster than it is handed from process to process: workers pay on cold or networked disks.
        streams: which streams; default: the store's own.

    Raises:
        FeatureError: an image or a stream is not in the store; no batch is read then.
    """
    from torch.utils.data import DataLoader

    known = list(batches)
    store.require(image_id for batch in known for image_id in batch)
    reading = _Reading(store, streams or (store.stream,))
    for stream in reading.streams:
        store.shape(stream)
    # Without automatic batching each "sample" is the ids of one batch.
    yield from DataLoader(reading, sampler=known, batch_size=None, num_workers=workers)  # type: ignore[arg-type]


def near_order(
    image_ids: Sequence[int], *, generator: np.random.Generator, block: int = 64, blocks_open: int = 64
) -> list[int]:
    """Return image ids in a random order in which neighbours of the file are asked for within a short time.

    Blocks of ``block`` neighbouring images are shuffled, and images are drawn from ``blocks_open`` blocks at a time: on
    a disk larger than memory each page is then read once an epoch, and nearly forwards. A batch mixes images of about
    ``blocks_open`` places of the file; it is no uniform draw from the whole data set.
    """
    ids = np.sort(np.asarray(image_ids, np.int64))
    blocks = [ids[start : start + block] for start in range(0, len(ids), block)]
    order = generator.permutation(len(blocks))
    found: list[int] = []
    for start in range(0, len(order), blocks_open):
        window = np.concatenate([blocks[number] for number in order[start : start + blocks_open]])
        found += generator.permutation(window).tolist()
    return found
