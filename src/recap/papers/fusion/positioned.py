"""Multi-head attention with positions on queries and keys, not on values (Fusion Transformer, Eq. 15-17).

    head = softmax((Q + APE_q) (K + APE_k)^T / sqrt(K) + log Omega') V

Positions are as wide as the model, a head's queries and keys are not: what Eq. 15 adds does not fit as printed. As in
the code of the papers that it follows, positions are added to what is projected (`before`); the other reading divides
them among the heads and adds them to what was projected (`after`).
"""

from __future__ import annotations

from torch import Tensor

from recap.nn.attention import KeyValue, MultiHeadAttention
from recap.nn.fast.linear import Linear
from recap.nn.rows import Rows

SITES = ("before", "after")


class PositionedAttention(MultiHeadAttention):
    """Multi-head attention whose queries and keys have positions, [B or 1, 1, T or N, D]; None: none.

    Args:
        d_model, heads: as in `MultiHeadAttention`.
        site: where positions are added: "before" or "after" the projections.

    Raises:
        ValueError: an unknown site, or D is not divisible by H.
    """

    def __init__(self, *, d_model: int, heads: int, site: str = "before") -> None:
        super().__init__(d_model=d_model, heads=heads)
        if site not in SITES:
            raise ValueError(f"unknown site of positions {site!r}; known are {[*SITES]}")
        self.site = site

    def key_value(self, source: Rows, positions: Tensor | None = None) -> KeyValue:
        """As `MultiHeadAttention.key_value`, with the positions of the source on its keys."""
        key = self._positioned(source, self.key, positions)
        return key.split_heads(self.heads), source.map(self.value).split_heads(self.heads)

    def forward(
        self,
        query: Rows,
        key_value: KeyValue,
        *,
        attn_mask: Tensor | None = None,
        attn_bias: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Rows:
        """As `MultiHeadAttention.forward`, with `positions` on the queries."""
        projected = self._positioned(query, self.query, positions)
        return self.attend(projected, key_value, attn_mask=attn_mask, attn_bias=attn_bias)

    def _positioned(self, rows: Rows, projection: Linear, positions: Tensor | None) -> Rows:
        if positions is None:
            return rows.map(projection)
        if self.site == "before":
            return rows.map(lambda x: projection(x + positions))
        return rows.map(lambda x: projection(x) + positions)
