"""The relative direction of two boxes: the nearest of a few standard directions (Fusion Transformer, section 3.2.1).

With d directions in each quadrant and the centre c of a box:

    u_i  = (cos(i pi / 2d), sin(i pi / 2d)),  i = 0 .. 4d - 1              (6)
    v_mn = (c_m - c_n) / |c_m - c_n|                                      (7)
    s_mn = arg max_i  v_mn . u_i                                          (8)

The first coordinate points right and the second down, as in pictures: with d = 1 the directions are right, down, left,
up. The paper leaves open what happens where two directions are equally near, as for 15 of 100 pairs of cells in a 7 x 7
grid: the lowest index is taken. Boxes of one centre have no direction: their index is 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

TIE = 1e-9  # cosines that differ by less are equally near: rounding would decide between them


def direction_vectors(per_quadrant: int) -> Tensor:
    """Return the standard directions of Eq. 6, float64 [4 d, 2]."""
    angles = torch.arange(4 * per_quadrant, dtype=torch.float64) * (math.pi / (2 * per_quadrant))
    return torch.stack([angles.cos(), angles.sin()], -1)


def direction_index(centres: Tensor, per_quadrant: int) -> Tensor:
    """Return s_mn of Eq. 8, int64 [..., N, N]: the direction that leads from box n to box m.

    Args:
        centres: [..., N, 2], right and down.
        per_quadrant: d, at least 1.
    """
    centres = centres.double()
    v = centres[..., :, None, :] - centres[..., None, :, :]  # [..., N, N, 2]
    v = v / v.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    cosines = v @ direction_vectors(per_quadrant).to(v.device).T  # [..., N, N, 4 d]
    near = cosines >= cosines.amax(-1, keepdim=True) - TIE
    numbers = torch.arange(4 * per_quadrant, device=v.device)
    return numbers.where(near, 4 * per_quadrant).amin(-1)


def same_centre(centres: Tensor) -> Tensor:
    """Return where two boxes have one centre, so that no direction leads from one to the other: bool [..., N, N]."""
    return (centres[..., :, None, :] == centres[..., None, :, :]).all(-1)
