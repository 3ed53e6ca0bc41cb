"""Batches of images with all their captions, in an order that depends on seed and epoch alone."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recap.core.hashing import generator
from recap.data.caption_ids import CaptionIds
from recap.features.ahead import prefetch
from recap.models.images import Images
from recap.runs.inputs import ReadsImages, batch_tensor


@dataclass(frozen=True)
class Batch:
    """B images and their captions, tokens [B, C, T + 1] (<bos>, words, <eos>).

    An image with fewer than C captions has rows that are all padding. A batch without images (the shard of a process
    that gets none) has no streams.
    """

    image_ids: list[int]
    images: Images
    tokens: Tensor

    def pinned(self) -> Batch:
        """Pin the tensors, so that `to` a GPU does not wait."""
        return Batch(self.image_ids, self.images.pinned(), self.tokens.pin_memory())

    def to(self, device: torch.device) -> Batch:
        """Move the tensors."""
        return Batch(self.image_ids, self.images.to(device), self.tokens.to(device, non_blocking=True))


class CaptionBatches:
    """Reads features and captions of training images: image id -> token ids of each, without <bos> and <eos>.

    The features hold every image; `seed` is of the shuffling. With `pin` the thread that reads
    batches pins them.
    """

    def __init__(
        self,
        *,
        features: ReadsImages,
        captions: Mapping[int, list[list[int]]],
        images_per_batch: int,
        seed: int,
        pin: bool = False,
    ) -> None:
        self.features, self.images_per_batch, self.seed, self.pin = features, images_per_batch, seed, pin
        self.captions = CaptionIds.of(captions)
        self._images = list(self.captions)

    def __len__(self) -> int:
        return -(-len(self._images) // self.images_per_batch)

    def order(self, epoch: int) -> list[list[int]]:
        """Return the image ids of each batch of an epoch."""
        shuffled = generator(self.seed, "order", epoch).permutation(self._images).tolist()
        return [shuffled[i : i + self.images_per_batch] for i in range(0, len(shuffled), self.images_per_batch)]

    def batch(self, image_ids: Sequence[int]) -> Batch:
        """Read one batch; of no images it is empty."""
        if not image_ids:
            return Batch([], Images({}), torch.empty(0, 0, 0).long())
        batch = Batch(list(image_ids), self.features.read(image_ids), batch_tensor(self.captions, image_ids))
        return batch.pinned() if self.pin else batch

    def read(self, batches: Iterable[Sequence[int]]) -> Generator[Batch]:
        """Read batches one ahead of their use, in a thread; close it to end the thread before all are read."""
        return prefetch(self.batch(image_ids) for image_ids in batches)
