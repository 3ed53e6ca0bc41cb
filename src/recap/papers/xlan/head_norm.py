"""Group norm of single vectors, one group per head: for them torch's own takes its slowest path on a CPU.

With one number per channel torch's group norm cannot work along rows as its layer norm does. Here the heads are rows of
a layer norm, and each channel's weight and bias follow: twice as fast, forward and backward, and nothing more is kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from recap.nn.fast.switch import fast


class HeadNorm(nn.GroupNorm):
    """torch's group norm of vectors [R, D], with the same parameters."""

    def forward(self, x: Tensor) -> Tensor:
        """[R, D] -> [R, D]."""
        if not fast() or x.device.type != "cpu" or x.dtype != self.weight.dtype or torch.compiler.is_compiling():
            return super().forward(x)
        return _HeadNorm.apply(x, self.weight, self.bias, self.num_groups, self.eps)


class _HeadNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, heads: int, eps: float) -> Tensor:
        split = x.unflatten(-1, (heads, -1))  # [R, H, K]
        normal, _, scale = torch.native_layer_norm(split, split.shape[-1:], None, None, eps)
        ctx.save_for_backward(normal, scale, weight)
        return torch.addcmul(bias, normal.view_as(x), weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        normal, scale, weight = ctx.saved_tensors
        d_weight = (grad * normal.flatten(-2)).sum(0)
        d_normal = (grad * weight).view_as(normal)
        # d_x = scale (d_n - mean d_n - n mean(n d_n))
        along = (d_normal * normal).mean(-1, keepdim=True)
        d_x = d_normal.sub_(d_normal.mean(-1, keepdim=True)).addcmul_(normal, along, value=-1).mul_(scale)
        return d_x.view_as(grad), d_weight, grad.sum(0), None, None
