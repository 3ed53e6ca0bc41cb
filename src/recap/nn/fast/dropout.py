"""Dropout whose masks are cheap to draw on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recap.nn.fast.switch import fast


class Dropout(nn.Dropout):
    """torch's dropout with 16 random bits per entry; p is rounded to 1 / 65,536 and the scale is exact for that p.

    On a CPU torch draws one number per entry in one thread: a tenth of an X-Transformer step, before this.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[...] -> [...]."""
        if not self.training or self.p == 0 or x.device.type != "cpu" or torch.compiler.is_compiling() or not fast():
            return super().forward(x)
        kept, keep_prob = dropout_mask(x, self.p)
        return x.mul(kept.view(x.shape)).mul_(1 / keep_prob)


def dropout_mask(like: Tensor, p: float) -> tuple[Tensor, float]:
    """Draw which entries of `like` are kept, a flat boolean tensor, and return the exact probability of keeping one."""
    if like.device.type != "cpu":
        return torch.rand(like.numel(), device=like.device) >= p, 1 - p
    bits = torch.empty(-(-like.numel() // 4), dtype=torch.long).random_(-(2**63), None)
    threshold = round(p * 2**16)
    return bits.view(torch.int16)[: like.numel()] >= threshold - 2**15, 1 - threshold / 2**16
