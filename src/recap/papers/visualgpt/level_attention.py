"""Cross-attention of a decoder layer over the outputs of several encoder layers, with the same weights for all of them.

M2 (Cornia et al. 2020, Eq. 4) and VisualGPT attend to each level on its own and combine what was found afterwards.
"""

from __future__ import annotations

import torch
from torch import Tensor

from recap.nn.attention import KeyValue
from recap.nn.dot_product import DotProductAttention
from recap.nn.fast.linear import Linear
from recap.nn.rows import Rows


class LevelAttention(DotProductAttention):
    """Multi-head attention with an output projection over L levels, which are in the place of captions.

    Args:
        d_model: width D, divisible by `heads`.
        heads: number of heads H.
        dropout: on the attention weights.

    Raises:
        ValueError: D is not divisible by H.
    """

    def __init__(self, *, d_model: int, heads: int, dropout: float) -> None:
        if d_model % heads:
            raise ValueError(f"d_model {d_model} is not divisible by {heads} heads")
        width = d_model // heads
        super().__init__(d_model=d_model, heads=heads, d_key=width, d_value=width, dropout=dropout)
        self.output = Linear(d_model, d_model)

    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Attend to a single source, see `Attention.forward`."""
        return super().forward(query, key_value, attn_mask=attn_mask).map(self.output)

    def each_level(self, query: Rows, levels: KeyValue, *, attn_mask: Tensor | None) -> Tensor:
        """Attend to each level with one projection of the query.

        Args:
            query: rows of [B, C, T, D].
            levels: keys and values, [B, L, H, N, K].
            attn_mask: as of `Attention.forward`.

        Returns:
            [L, B, C, T, D], or [L, R, D] where the query is packed.
        """
        q = self.query_heads(query)
        key_values = zip(*(x.split(1, 1) for x in levels), strict=True)
        found = [self.attend(q, pair, attn_mask) for pair in key_values]
        return self.output(torch.stack([query.merge_heads(level).values for level in found]))
