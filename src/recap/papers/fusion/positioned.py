"""Absolute positions of an image's vectors, and attention with them on queries and keys, not on values (FT, 3.2.3).

Positions are of regions from their boxes (Eq. 12), of cells from row and column (Eq. 13-14). With them (Eq. 15-17)

    head = softmax((Q + APE_q) (K + APE_k)^T / sqrt(K) + log Omega') V

Positions are as wide as the model, a head's queries and keys are not: what Eq. 15 adds does not fit as printed. As in
the code of the papers that it follows, positions are added to what is projected (`before`); the other reading divides
them among the heads and adds them to what was projected (`after`).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from recap.nn.attention import KeyValue, MultiHeadAttention
from recap.nn.fast import Linear
from recap.nn.layers import grid_table
from recap.nn.rows import Rows

CELL_POSITIONS = ("index", "angle")


class BoxPositions(nn.Module):
    """RAPE = (left, top, right, bottom) W_emb (Eq. 12): boxes [..., N, 4], fractions of the image -> [..., N, D].

    The formula has no bias; the code that the paper follows has one.
    """

    def __init__(self, *, d_model: int, bias: bool) -> None:
        super().__init__()
        self.embedding = Linear(4, d_model, bias=bias)

    def forward(self, boxes: Tensor) -> Tensor:
        """[..., N, 4] -> [..., N, D]."""
        return self.embedding(boxes)


def cell_positions(side: int, width: int, *, form: str) -> Tensor:
    """Return GAPE = [PE_row ; PE_column] (Eq. 13-14) of a grid's cells in raster order, float64 [side * side, width].

    Args:
        side: cells per edge.
        width: D, divisible by 4.
        form: "index": the angles of Eq. 14, from rows and columns 0, 1, ..; "angle": rows and columns 1, 2, .. are
            first brought to fractions of 2 pi, as the code that the paper follows does.
    """
    if form not in CELL_POSITIONS:
        raise ValueError(f"unknown form of cell positions {form!r}; known are {[*CELL_POSITIONS]}")
    if form == "index":
        return grid_table(side, width)
    places = torch.arange(1, side + 1, dtype=torch.float64) / (side + 1e-6) * (2 * math.pi)
    return grid_table(side, width, positions=places)


SITES = ("before", "after")


class PositionedAttention(MultiHeadAttention):
    """Multi-head attention whose queries and keys have positions, [B or 1, 1, T or N, D]; None: none.

    They are added "before" or "after" the projections, as `site` says.
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
