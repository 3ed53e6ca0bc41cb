"""Vectors of captions as one value, padded or packed: what acts on each vector alone need not know which."""

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
