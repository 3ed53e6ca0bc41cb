"""Vectors of captions as one value, padded or packed:
what acts on each vector alone need not know which; and masks.

Captions that share the keys of their image are query rows against them (`captions_to_queries`):
no key is copied.
A mask of attention is boolean, True = may attend, and broadcasts to [B, C, T, N]; the caller of an
attention builds it, None masks nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
Result = TypeVar("Result")
MASKED_SCORE = -1e9  # of masked positions; finite, so that a fully masked row does not become NaN


class PackedIndex:
    """Positions of the R unmasked tokens of captions, [B, C, T], True at tokens."""

    def __init__(self, token_mask: Tensor) -> None:
        self.token_mask = token_mask
        self.shape = token_mask.shape
        self.rows = token_mask.flatten().nonzero()[:, 0]  # [R]; of a mask on a GPU this waits

    def each(self, change: Callable[[Tensor], Tensor]) -> PackedIndex:
        """Change both tensors, such as to another device."""
        changed = copy(self)
        changed.token_mask = change(self.token_mask)
        changed.rows = change(self.rows)
        return changed

    @property
    def positions(self) -> Tensor:
        """The position of each of the R tokens in its caption."""
        return self.rows % self.shape[-1]

    def pack(self, x: Tensor) -> Tensor:
        """[B, C, T, ...] -> [R, ...]: without padding."""
        return _Pack.apply(x.flatten(0, 2), self.rows)

    def unpack(self, x: Tensor) -> Tensor:
        """[R, ...] -> [B, C, T, ...] with zeros in place of padding."""
        return _Unpack.apply(x, self.rows, self.shape.numel()).unflatten(0, self.shape)


class _Pack(torch.autograd.Function):
    """Row selection whose gradient is a copy.

    Torch's own adds row by row, as its index may have duplicates.
    """

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


@dataclass(eq=False)
class Rows:
    """Vectors that an attention takes as queries, or from which it projects keys and values."""

    values: Tensor  #: [B, C, T, D]; with `index` those of the R tokens that are not padding, [R, D]
    index: PackedIndex | None = None  #: positions of packed vectors; None: not packed
    #: [B, C, T], True where a padded vector is not padding; for attentions that pool over queries.
    #: None: packed, or nothing depends on it.
    token_mask: Tensor | None = None

    @classmethod
    def pack(cls, padded: Tensor, index: PackedIndex | None) -> Rows:
        """[B, C, T, D] -> packed rows, or as they are where `index` is None."""
        return cls(padded if index is None else index.pack(padded), index)

    @property
    def shape(self) -> tuple[int, ...]:
        """B, C, T of the padded captions."""
        return tuple(self.values.shape[:3] if self.index is None else self.index.shape)

    def like(self, values: Tensor) -> Rows:
        """Return other vectors of the same tokens: [..., E] as `values`."""
        return Rows(values, self.index, self.token_mask)

    def map(self, function: Callable[[Tensor], Tensor]) -> Rows:
        """Apply a function of single vectors, [..., D] -> [..., E]."""
        return self.like(function(self.values))

    def within(self, residual: Callable[..., Tensor], sublayer: Callable[[Rows], Rows]) -> Rows:
        """Apply a sublayer of rows, within a residual connection such as `Residual`."""
        return self.like(residual(self.values, lambda x: sublayer(self.like(x)).values))

    def padded(self) -> Tensor:
        """Return [B, C, T, D]; packed rows have zeros in place of padding."""
        return self.values if self.index is None else self.index.unpack(self.values)

    def split_heads(self, heads: int) -> Tensor:
        """Return [B, C, H, T, K] with D = H * K."""
        return self.padded().unflatten(-1, (heads, -1)).transpose(2, 3)

    def merge_heads(self, x: Tensor) -> Rows:
        """Undo `split_heads`: [B, C, H, T, K] -> rows of the same tokens."""
        merged = x.transpose(2, 3).flatten(-2)
        return self.like(merged if self.index is None else self.index.pack(merged))


def captions_to_queries(x: Tensor, shared: bool) -> Tensor:
    """Bring rows to the batch axis of the keys: [B, C, H, T, K] -> [B', H, R, K].

    Keys that the captions of an image share are not copied for them: the captions become R = C * T
    query rows of B' = B images. Otherwise every caption is a separate image: B' = B * C, R = T.
    """
    return x.transpose(1, 2).flatten(2, 3) if shared else x.flatten(0, 1)


def queries_to_captions(x: Tensor, captions: int, shared: bool) -> Tensor:
    """Undo `captions_to_queries`: [B', H, R, K] -> [B, C, H, T, K]."""
    return (
        x.unflatten(2, (captions, -1)).transpose(1, 2) if shared else x.unflatten(0, (-1, captions))
    )


def keys_for_queries(
    key_value: tuple[Tensor, Tensor], captions: int
) -> tuple[Tensor, Tensor, bool]:
    """Keys and values [B, C or 1, H, N, K] -> [B', H, N, K], and whether C captions share them."""
    key, value = key_value
    if key.shape[1] < captions:
        return key[:, 0], value[:, 0], True
    return key.flatten(0, 1), value.flatten(0, 1), False


def mask_for_queries(attn_mask: Tensor, shape: tuple[int, ...], shared: bool) -> Tensor:
    """Bring a mask of rows of shape B, C, T,
    broadcastable to [B, C, T, N], to the queries of `captions_to_queries`: [B', 1, R or 1, N].

    A mask of all captions, [1, 1, T, N], stays as it is.
    """
    images, captions, length = shape
    if not shared and attn_mask.shape[:2] == (1, 1):
        return attn_mask
    if not shared:
        return attn_mask.expand(images, captions, -1, -1).flatten(0, 1)[:, None]
    if attn_mask.shape[1:3] == (1, 1):
        return attn_mask.expand(images, -1, -1, -1)
    return attn_mask.expand(images, captions, length, -1).flatten(1, 2)[:, None]


def shared_product(rows: Tensor, keys: Tensor) -> Tensor:
    """[B, C, H, T, X] times [B, C or 1, H, X, Y] -> [B, C, H, T, Y], shared keys not copied."""
    if keys.shape[1] == rows.shape[1]:
        return rows @ keys
    return queries_to_captions(captions_to_queries(rows, True) @ keys[:, 0], rows.shape[1], True)


def constant(make: Callable[P, Result]) -> Callable[P, Result]:
    """Let a function of sizes and a device return the same tensors, unless compiled."""

    @cache
    def once(*sizes: Any) -> Result:
        # a tensor made in that mode could not take part in a later training
        with torch.inference_mode(False):
            return make(*sizes)  # type: ignore[call-arg]

    @wraps(make)
    def call(*sizes: Any) -> Result:
        return make(*sizes) if torch.compiler.is_compiling() else once(*sizes)  # type: ignore[call-arg]

    return call  # type: ignore[return-value]


@constant
def causal_mask(length: int, device: torch.device) -> Tensor:
    """Return [1, 1, T, T], one tensor unless compiled: token t attends to t' <= t."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


def is_causal(mask: Tensor) -> bool:
    """Return whether a mask is that of `causal_mask`, which fused attention can do without.

    Its values are not read.
    """
    square = mask.shape[:2] == (1, 1) and mask.shape[2] == mask.shape[3]
    return (
        square
        and not torch.compiler.is_compiling()
        and mask is causal_mask(mask.shape[2], mask.device)
    )


def key_mask(mask: Tensor) -> Tensor:
    """Mask of keys [B, N] -> [B, 1, 1, N].

    Of keys that differ between captions [B, C, N] -> [B, C, 1, N].
    """
    return mask[:, None, None] if mask.dim() == 2 else mask[:, :, None]


def none_if_all_true(mask: Tensor) -> Tensor | None:
    """Return the mask, or None if it hides nothing, which saves its use."""
    return None if is_free_to_read(mask) and mask.all() else mask


def is_free_to_read(mask: Tensor) -> bool:
    """Return whether a mask's values can be read at no cost: reading them would stall a GPU."""
    return mask.device.type == "cpu" and not torch.compiler.is_compiling()
