"""The tokens of padded captions as rows, so that what acts on each token alone skips the padding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class PackedIndex:
    """Positions of the R unmasked tokens of captions, [B, C, T], True where a token is not padding."""

    def __init__(self, token_mask: Tensor) -> None:
        self.shape = token_mask.shape
        self.rows = token_mask.flatten().nonzero()[:, 0]  # [R]

    def pack(self, x: Tensor) -> Tensor:
        """[B, C, T, ...] -> [R, ...]: without padding."""
        return _Pack.apply(x.flatten(0, 2), self.rows)

    def unpack(self, x: Tensor) -> Tensor:
        """[R, ...] -> [B, C, T, ...] with zeros in place of padding."""
        return _Unpack.apply(x, self.rows, self.shape.numel()).unflatten(0, self.shape)


class _Pack(torch.autograd.Function):
    """Row selection whose gradient is a copy; torch's own adds row by row, as its index may have duplicates."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.size = len(x)
        return x.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        return grad.new_zeros(ctx.size, *grad.shape[1:]).index_copy_(0, rows, grad), None


class _Unpack(torch.autograd.Function):
    """The inverse of `_Pack`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(rows)
        return x.new_zeros(size, *x.shape[1:]).index_copy_(0, rows, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (rows,) = ctx.saved_tensors
        return grad.index_select(0, rows), None, None
