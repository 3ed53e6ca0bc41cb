"""Vectors of captions as one value, padded or packed: what acts on each vector alone need not know which.

Captions that share the keys of their image are query rows against them (`fold`): no key is copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from recap.nn.fast import PackedIndex


@dataclass(eq=False)
class Rows:
    """Vectors that an attention takes as queries, or from which it projects keys and values."""

    values: Tensor  #: [B, C, T, D]; with `index` those of the R tokens that are not padding, [R, D]
    index: PackedIndex | None = None  #: positions of packed vectors; None: not packed
    #: [B, C, T], True where a padded vector is not padding; for attentions that pool over queries. None: packed, or
    #: nothing depends on it.
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

    def padded(self) -> Tensor:
        """Return [B, C, T, D]; packed rows have zeros in place of padding."""
        return self.values if self.index is None else self.index.unpack(self.values)

    def split_heads(self, heads: int) -> Tensor:
        """Return [B, C, H, T, K] with D = H * K."""
        return self.padded().unflatten(-1, (heads, -1)).transpose(2, 3)

    def merge_heads(self, x: Tensor) -> Rows:
        """Undo `split_heads` for what was made of these rows: [B, C, H, T, K] -> rows of the same tokens."""
        merged = x.transpose(2, 3).flatten(-2)
        return self.like(merged if self.index is None else self.index.pack(merged))


def fold(x: Tensor, shared: bool) -> Tensor:
    """Bring rows to the batch axis of the keys: [B, C, H, T, K] -> [B', H, R, K].

    Keys that the captions of an image share are not copied for them: the captions become R = C * T query rows of
    B' = B images. Otherwise every caption is a separate image: B' = B * C, R = T.
    """
    return x.transpose(1, 2).flatten(2, 3) if shared else x.flatten(0, 1)


def unfold(x: Tensor, captions: int, shared: bool) -> Tensor:
    """Undo `fold`: [B', H, R, K] -> [B, C, H, T, K]."""
    return x.unflatten(2, (captions, -1)).transpose(1, 2) if shared else x.unflatten(0, (-1, captions))


def fold_mask(attn_mask: Tensor, shape: tuple[int, ...], shared: bool) -> Tensor:
    """Bring a mask of rows of shape B, C, T, broadcastable to [B, C, T, N], to folded rows: [B', 1, R or 1, N].

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
    """[B, C, H, T, X] times [B, C or 1, H, X, Y] -> [B, C, H, T, Y], without copying shared keys."""
    if keys.shape[1] == rows.shape[1]:
        return rows @ keys
    return unfold(fold(rows, True) @ keys[:, 0], rows.shape[1], True)
