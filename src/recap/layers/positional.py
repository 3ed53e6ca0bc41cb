"""Sinusoid positions (Vaswani et al. 2017, section 3.5), of tokens in a caption and of cells in a grid."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinusoid_table(length: int, width: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return [length, width]: even columns sin(pos / 10000^(i/D)), odd columns the cosine of the same angle.

    Computed in `dtype`: float32 gives the very bits of released code.
    """
    positions = torch.arange(length, dtype=dtype)[:, None]
    rates = torch.exp(torch.arange(0, width, 2, dtype=dtype) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width, dtype=dtype)
    table[:, 0::2] = torch.sin(positions * rates)
    table[:, 1::2] = torch.cos(positions * rates)[:, : width // 2]
    return table


def grid_table(side: int, width: int) -> Tensor:
    """Return [side * side, width] float64 for cells in raster order: half the columns code the row, half the column.

    Raises:
        ValueError: the width is not divisible by 4, so that the halves have no sine for each cosine.
    """
    if width % 4:
        raise ValueError(f"grid positions need a width divisible by 4, not {width}")
    line = sinusoid_table(side, width // 2)
    rows = line[:, None].expand(side, side, -1)
    columns = line[None].expand(side, side, -1)
    return torch.cat([rows, columns], -1).flatten(0, 1)
