"""Sinusoid positions (Vaswani et al. 2017, section 3.5), of tokens in a caption and of cells in a grid."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Return the codes [P, width] of positions [P].

    Even columns are sin(pos / 10000^(i/D)), odd columns the cosine of the same angle. Computed in the type of the
    positions: float32 gives the very bits of released code.
    """
    rates = torch.exp(torch.arange(0, width, 2, dtype=positions.dtype) * (-math.log(10000.0) / width))
    table = torch.zeros(len(positions), width, dtype=positions.dtype)
    table[:, 0::2] = torch.sin(positions[:, None] * rates)
    table[:, 1::2] = torch.cos(positions[:, None] * rates)[:, : width // 2]
    return table


def sinusoid_table(length: int, width: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return [length, width] of the positions 0, 1, .., as `sinusoids`."""
    return sinusoids(torch.arange(length, dtype=dtype), width)


def grid_table(side: int, width: int, *, positions: Tensor | None = None) -> Tensor:
    """Return [side * side, width] float64 for cells in raster order: half the columns code the row, half the column.

    Args:
        side: cells per edge.
        width: of the codes.
        positions: [side], of a row or column; None: 0, 1, ..
    """
    if width % 4:
        raise ValueError(f"grid positions need a width divisible by 4, not {width}")
    line = sinusoid_table(side, width // 2) if positions is None else sinusoids(positions, width // 2)
    rows = line[:, None].expand(side, side, -1)
    columns = line[None].expand(side, side, -1)
    return torch.cat([rows, columns], -1).flatten(0, 1)
