"""The real words of padded captions as rows, so that what acts on each word alone skips the padding."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor


class Words:
    """Where the real words of captions [B, C, T] stand.

    Args:
        real: [B, C, T], True where a word is no padding; R of them are.
    """

    def __init__(self, real: Tensor) -> None:
        self.shape = real.shape
        self.rows = real.flatten().nonzero()[:, 0]  # [R]

    def pack(self, x: Tensor) -> Tensor:
        """[B, C, T, ...] -> [R, ...]: the real words alone."""
        return cast(Tensor, _Pack.apply(x.flatten(0, 2), self.rows))

    def spread(self, x: Tensor) -> Tensor:
        """[R, ...] -> [B, C, T, ...] with zeros in the place of padding."""
        return cast(Tensor, _Spread.apply(x, self.rows, self.shape.numel())).unflatten(0, self.shape)


def spread(x: Tensor, words: Words | None) -> Tensor:
    """Return padded captions: `x` itself where nothing was packed."""
    return x if words is None else words.spread(x)


def pack(x: Tensor, words: Words | None) -> Tensor:
    """Return the real words alone where words are packed, else `x` itself."""
    return x if words is None else words.pack(x)


class _Pack(torch.autograd.Function):
    """Row selection whose gradient is a copy; torch's own adds row by row, because an index may stand twice there."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.size = len(x)
        return x.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        return gradient.new_zeros(ctx.size, *gradient.shape[1:]).index_copy_(0, rows, gradient), None


class _Spread(torch.autograd.Function):
    """The inverse of `_Pack`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(rows)
        return x.new_zeros(size, *x.shape[1:]).index_copy_(0, rows, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (rows,) = ctx.saved_tensors
        return gradient.index_select(0, rows), None, None
