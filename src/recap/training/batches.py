"""Batches of images with all their captions, in an order that depends on seed and epoch alone."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recap.core.hashing import generator
from recap.core.threads import prefetch
from recap.data.vocabulary import PAD, CaptionIds
from recap.models.images import Images
from recap.nn.rows import PackedIndex
from recap.runs.inputs import ReadsImages, batch_tensor


@dataclass(frozen=True)
class Batch:
    """B images and their captions, tokens [B, C, T + 1] (<bos>, words, <eos>);
    missing captions are all padding.

    The shard of a process that gets no image has no streams, and so has a batch of texts, each the
    caption of its id.
    """

    image_ids: list[int]
    images: Images
    tokens: Tensor
    index: PackedIndex  # of the targets, tokens [..., 1:], that are not padding

    @classmethod
    def of(cls, image_ids: list[int], images: Images, tokens: Tensor) -> Batch:
        """Return a batch with its index, asked on the CPU, so that no step waits for it."""
        return cls(image_ids, images, tokens, PackedIndex(tokens[..., 1:] != PAD))

    def to(self, device: torch.device) -> Batch:
        """Move the tensors to a device."""
        return self.each(lambda x: x.to(device, non_blocking=True))

    def pinned(self) -> Batch:
        """Return the batch in memory that a GPU copies from while the CPU goes on."""
        return self.each(Tensor.pin_memory)

    def each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """Change every tensor."""
        images = self.images.each(change)
        return Batch(self.image_ids, images, change(self.tokens), self.index.each(change))


@dataclass(kw_only=True, eq=False)
class CaptionBatches:
    """Reads captions and, where there are any, features."""

    features: ReadsImages | None
    # image id -> token ids of each, without <bos> and <eos>
    captions: Mapping[int, list[list[int]]]
    images_per_batch: int
    seed: int  # of the shuffling
    label: str = "order"  # of the shuffling, beside the seed
    most: int | None = None  # batches of an epoch; None: as many as show every image once
    # the thread that reads batches pins their tensors, so that `to` a GPU does not wait
    pin: bool = False

    def __post_init__(self) -> None:
        self.captions = self._captions = CaptionIds.of(self.captions)
        self._images = list(self._captions)
        self._cut: list[list[int]] | None = None

    def __len__(self) -> int:
        if self._cut is not None:
            return len(self._cut)
        every = -(-len(self._images) // self.images_per_batch)
        return every if self.most is None else min(self.most, every)

    def cut(self, steps: int, *, one_batch: bool) -> None:
        """Have one epoch of so many batches:
        the first of all epochs in their order, or the first again and again."""
        few: list[list[int]] = []
        while len(few) < steps:
            few += self.order(0)[:1] if one_batch else self.order(len(few) // len(self))
        self._cut = few[:steps]

    def order(self, epoch: int) -> list[list[int]]:
        """Return the image ids of each batch of an epoch."""
        if self._cut is not None:
            return self._cut
        shuffled = generator(self.seed, self.label, epoch).permutation(self._images).tolist()
        starts = range(0, len(shuffled), self.images_per_batch)
        return [shuffled[i : i + self.images_per_batch] for i in starts[: self.most]]

    def batch(self, image_ids: Sequence[int]) -> Batch:
        """Read one batch; of no images it is empty."""
        if not image_ids:
            return Batch.of([], Images({}), torch.empty(0, 0, 0).long())
        images = self.features.read(image_ids) if self.features else Images({})
        batch = Batch.of(list(image_ids), images, batch_tensor(self._captions, image_ids))
        return batch.pinned() if self.pin else batch

    def read(self, batches: Iterable[Sequence[int]]) -> Generator[Batch]:
        """Read batches one ahead of their use, in a thread.

        Close it to end the thread before all are read.
        """
        return prefetch(self.batch(image_ids) for image_ids in batches)
