"""The memory of models that also summarize an image in one vector."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from recap.models.state import Memory


@dataclass(frozen=True)
class GlobalMemory(Memory):
    """A memory with `summary` [B, D], the image-level vector."""

    summary: Tensor


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the real vectors: [B, N, D], [B, N] -> [B, D]."""
    weights = mask.to(values.dtype)
    return (weights[:, None] @ values)[:, 0] / weights.sum(-1, keepdim=True).clamp(min=1)
