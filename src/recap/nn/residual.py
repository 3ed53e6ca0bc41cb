"""Residual connection around a sub-layer, with the norm before or after it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class UnbiasedLayerNorm(nn.Module):
    """gain * (x - mean) / (unbiased std + 1e-6) + shift, as in the Annotated Transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        deviation, mean = torch.std_mean(x, -1, keepdim=True)
        return self.weight * (x - mean) / (deviation + 1e-6) + self.bias


NORMS: dict[str, Callable[[int], nn.Module]] = {"biased": nn.LayerNorm, "unbiased": UnbiasedLayerNorm}


class Residual(nn.Module):
    """x + dropout(f(norm(x))) for `pre`, norm(x + dropout(f(x))) for `post`; [..., D] -> [..., D]."""

    def __init__(self, *, d_model: int, norm: str, norm_kind: str, dropout: float) -> None:
        super().__init__()
        self.pre = norm == "pre"
        self.norm = NORMS[norm_kind](d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply `sublayer` within the connection."""
        if self.pre:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))
