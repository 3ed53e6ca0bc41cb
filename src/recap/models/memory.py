"""The memory of models that keep more of an image than its vectors: a summary, or the outputs of all encoder layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from recap.models.images import Stream
from recap.models.state import Memory


@dataclass(frozen=True)
class GlobalMemory(Memory):
    """A memory with `summary` [B, D], the image-level vector."""

    summary: Tensor


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the real vectors: [B, N, D], [B, N] -> [B, D]."""
    weights = mask.to(values.dtype)
    return (weights[:, None] @ values)[:, 0] / weights.sum(-1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class LevelMemory(Memory):
    """A memory with the output of every encoder layer, `levels` [B, L, N, D]; `values` is the last of them."""

    levels: Tensor

    def select(self, images: Tensor) -> Self:
        """Return the memory of some of the images, given by index."""
        levels = self.levels[images]
        return replace(self, values=levels[:, -1], mask=self.mask[images], levels=levels)


def first_vectors(stream: Stream, most: int | None, padded_to: int | None) -> tuple[Tensor, Tensor]:
    """Return the first vectors of each image, all where `most` is None, [B, N, F], and their mask [B, N].

    With `padded_to` images are filled up to so many vectors with zeros that the mask does not hide.
    """
    values, mask = stream.values[:, :most], stream.mask[:, :most]
    if padded_to is not None:
        values = pad(values.masked_fill(~mask[..., None], 0), (0, 0, 0, padded_to - mask.shape[1]))
        mask = torch.ones(values.shape[:2], dtype=torch.bool, device=mask.device)
    return values, mask
