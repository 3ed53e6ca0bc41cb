"""Absolute positions of an image's vectors: of regions from their boxes, of cells from row and column (FT, 3.2.3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from recap.nn.fast.linear import Linear
from recap.nn.positional import grid_table

CELL_POSITIONS = ("index", "angle")


class BoxPositions(nn.Module):
    """RAPE = (left, top, right, bottom) W_emb (Eq. 12): boxes [..., N, 4], fractions of the image -> [..., N, D].

    Args:
        d_model: D.
        bias: add one, as the code that the paper follows does; the formula has none.
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

    Raises:
        ValueError: the width is not divisible by 4, or an unknown form.
    """
    if form not in CELL_POSITIONS:
        raise ValueError(f"unknown form of cell positions {form!r}; known are {[*CELL_POSITIONS]}")
    if form == "index":
        return grid_table(side, width)
    places = torch.arange(1, side + 1, dtype=torch.float64) / (side + 1e-6) * (2 * math.pi)
    return grid_table(side, width, positions=places)
