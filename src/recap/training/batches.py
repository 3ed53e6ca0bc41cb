"""Batches of images with all their captions, in an order that depends on seed and epoch alone."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from recap.core.seeding import generator
from recap.data.vocabulary import BOS, EOS, PAD
from recap.features.resident import ResidentFeatures
from recap.features.store import FeatureStore

Item = TypeVar("Item")


@dataclass(frozen=True)
class Batch:
    """B images: features [B, N, F] float32, mask [B, N] (True = real), tokens [B, C, T + 1] (<bos>, words, <eos>).

    An image with fewer than C captions has rows that are all padding.
    """

    image_ids: list[int]
    features: Tensor
    mask: Tensor
    tokens: Tensor

    def to(self, device: torch.device) -> Batch:
        """Move the tensors."""
        move = (x.to(device, non_blocking=True) for x in (self.features, self.mask, self.tokens))
        return Batch(self.image_ids, *move)


class CaptionBatches:
    """Reads features and captions of training images.

    Args:
        store: holds the features of every image of `captions`.
        captions: image id -> word ids of each caption, without <bos> and <eos>.
        images_per_batch: B.
        seed: of the shuffling.
    """

    def __init__(
        self,
        *,
        store: FeatureStore | ResidentFeatures,
        captions: dict[int, list[list[int]]],
        images_per_batch: int,
        seed: int,
    ) -> None:
        self.store, self.captions, self.images_per_batch, self.seed = store, captions, images_per_batch, seed
        self._images = sorted(captions)

    def __len__(self) -> int:
        return -(-len(self._images) // self.images_per_batch)

    def order(self, epoch: int) -> list[list[int]]:
        """Return the image ids of each batch of an epoch."""
        shuffled = generator(self.seed, "order", epoch).permutation(self._images).tolist()
        return [shuffled[i : i + self.images_per_batch] for i in range(0, len(shuffled), self.images_per_batch)]

    def batch(self, image_ids: Sequence[int]) -> Batch:
        """Read one batch; without images (the share of a process that gets none) its tensors are empty."""
        if not image_ids:
            return Batch([], torch.empty(0, 0, 0), torch.empty(0, 0, dtype=torch.bool), torch.empty(0, 0, 0).long())
        features, mask = self.store.read(image_ids)
        return Batch(list(image_ids), features, mask, caption_tensor([self.captions[i] for i in image_ids]))

    def read(self, batches: Iterable[Sequence[int]]) -> Generator[Batch]:
        """Read batches one ahead of their use, in a thread; close it to end the thread before all are read."""
        return ahead(self.batch(image_ids) for image_ids in batches)


def caption_tensor(captions: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    """Word ids of each image's captions -> [B, C, T + 1] with <bos>, <eos> and padding."""
    most = max(len(rows) for rows in captions)
    longest = max((len(words) for rows in captions for words in rows), default=0)
    tokens = torch.full((len(captions), most, longest + 2), PAD, dtype=torch.long)
    for image, rows in enumerate(captions):
        for row, words in enumerate(rows):
            tokens[image, row, : len(words) + 2] = torch.tensor([BOS, *words, EOS])
    return tokens


def ahead(items: Iterator[Item], depth: int = 2) -> Generator[Item]:
    """Yield the items of an iterator that a thread keeps `depth` ahead of; its errors are raised here."""
    done = object()
    stop = threading.Event()
    line: queue.Queue[object] = queue.Queue(depth)

    def put(value: object) -> None:
        while not stop.is_set():
            try:
                line.put(value, timeout=0.2)
                return
            except queue.Full:
                continue  # the reader is busy, or has left and will set `stop`

    def fill() -> None:
        try:
            for item in items:
                put(item)
                if stop.is_set():
                    return
            put(done)
        except BaseException as error:  # handed over to the reader, whatever it is
            put(error)

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    try:
        while (value := line.get()) is not done:
            if isinstance(value, BaseException):
                raise value
            yield value  # type: ignore[misc]
    finally:
        stop.set()
        thread.join()  # a thread that is within torch while Python ends would abort the process
