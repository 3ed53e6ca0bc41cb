"""Sinusoid positions (Vaswani et al. 2017, section 3.5)."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinusoid_table(length: int, width: int) -> Tensor:
    """Return [length, width] float64: even columns sin(pos / 10000^(i/D)), odd columns the cosine of the same angle."""
    positions = torch.arange(length, dtype=torch.float64)[:, None]
    rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width, dtype=torch.float64)
    table[:, 0::2] = torch.sin(positions * rates)
    table[:, 1::2] = torch.cos(positions * rates)[:, : width // 2]
    return table
