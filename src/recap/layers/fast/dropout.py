"""Dropout whose masks are cheap to draw on a processor."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Dropout(nn.Dropout):
    """torch's dropout, where an entry takes 16 random bits; the chance is rounded to 1 / 65,536 and scaled by exactly.

    On a processor torch draws a number an entry in one thread: a tenth of an X-Transformer step, before this.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[...] -> [...]."""
        if not self.training or self.p == 0 or x.device.type != "cpu" or torch.compiler.is_compiling():
            return super().forward(x)
        kept, chance = keep(x, self.p)
        return x.mul(kept.view(x.shape)).mul_(1 / chance)


def keep(like: Tensor, dropout: float) -> tuple[Tensor, float]:
    """Return where to keep entries, a flat boolean, and the exact chance of one."""
    if like.device.type != "cpu":
        return torch.rand(like.numel(), device=like.device) >= dropout, 1 - dropout
    bits = torch.empty(-(-like.numel() // 4), dtype=torch.long).random_(-(2**63), None)
    cut = round(dropout * 2**16)
    return bits.view(torch.int16)[: like.numel()] >= cut - 2**15, 1 - cut / 2**16
