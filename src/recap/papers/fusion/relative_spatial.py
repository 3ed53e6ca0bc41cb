"""Geometry and direction of two boxes as a bias of attention scores (Fusion Transformer, 3.2.1 and 3.2.2).

With center c = (x, y), width w and height h of a box as fractions of the image, and d directions in each quadrant:

    u_i  = (cos(i pi / 2d), sin(i pi / 2d)),  i = 0 .. 4d - 1                                             (6)
    v_mn = (c_m - c_n) / |c_m - c_n|                                                                     (7)
    s_mn = arg max_i  v_mn . u_i                                                                         (8)
    Omega(m, n)  = (log(|x_m - x_n| / w_m), log(|y_m - y_n| / h_m), log(w_n / w_m), log(h_n / h_m))      (9)
    Omega'(m, n) = (Omega(m, n), log s_mn)                                                               (10)
    Omega'(m, n) = ReLU(Emb(Omega') W_G)                                        one number per head      (11)
    bias         = log Omega'(m, n)                                                                      (15)

The first coordinate points right and the second down, as in pictures: with d = 1 the directions are right, down, left,
up. Readings where the paper leaves it open, as in the code of the papers that it follows (Herdade et al. 2019):
  - where two directions are equally near, as for 15 of 100 pairs of cells in a 7 x 7 grid, the lowest index is taken;
    boxes of one center have no direction: their index is 0;
  - for log 0 of Eq. 9, the first two fractions are at least 1e-3;
  - Emb multiplies each number by 100 / 1000^(t/8), t = 0 .. 7; first all sines, then all cosines;
  - s_mn counts from 1 in Eq. 10, for log 0 of the first direction is no number;
  - log of what the ReLU made 0 is log 1e-6; W_G has a bias.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from recap.nn.fast import Linear

TIE = 1e-9  # cosines that differ by less are equally near: rounding would decide between them


def direction_vectors(per_quadrant: int) -> Tensor:
    """Return the standard directions of Eq. 6, float64 [4 d, 2]."""
    angles = torch.arange(4 * per_quadrant, dtype=torch.float64) * (math.pi / (2 * per_quadrant))
    return torch.stack([angles.cos(), angles.sin()], -1)


def direction_index(centres: Tensor, per_quadrant: int) -> Tensor:
    """Return s_mn of Eq. 8, int64 [..., N, N]: the direction that leads from box n to box m.

    Args:
        centers: [..., N, 2], right and down.
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
    """Return where two boxes have one center, so that no direction leads from one to the other: bool [..., N, N]."""
    return (centres[..., :, None, :] == centres[..., None, :, :]).all(-1)


SMALLEST_DISTANCE = 1e-3  # of centers, in widths and heights of the query's box
SMALLEST_SIDE = 1e-6  # of a box that is a line or a point
RATES = 8
WAVELENGTH, SCALE = 1000.0, 100.0


@dataclass(frozen=True)
class Boxes:
    """Center [..., N, 2] and sides [..., N, 2] of boxes, first of width then of height."""

    centres: Tensor
    sides: Tensor

    @classmethod
    def of(cls, corners: Tensor) -> Boxes:
        """Left, top, right, bottom [..., N, 4] -> centers and sides."""
        low, high = corners[..., :2], corners[..., 2:]
        return cls((low + high) / 2, (high - low).clamp(min=SMALLEST_SIDE))


def relative_geometry(boxes: Boxes, *, plus_one: bool = False, size_ratio: str = "n_over_m") -> Tensor:
    """Return Omega of Eq. 9, [..., N, N, 4], of box m (the query) towards box n (the key).

    Args:
        boxes: as fractions of the image.
        plus_one: add 1 to widths and heights, as the code of those papers does even where they are fractions.
        size_ratio: "n_over_m" as printed; "m_over_n" as in that code.
    """
    sides = boxes.sides + 1 if plus_one else boxes.sides
    query, key = sides[..., :, None, :], sides[..., None, :, :]
    apart = (boxes.centres[..., :, None, :] - boxes.centres[..., None, :, :]).abs()
    ratio = key / query if size_ratio == "n_over_m" else query / key
    return torch.cat([(apart / query).clamp(min=SMALLEST_DISTANCE), ratio.expand_as(apart)], -1).log()


def sinusoidal_embedding(numbers: Tensor) -> Tensor:
    """Return Emb of numbers: [..., F] -> [..., 16 F], eight sines for each number, then eight cosines for each."""
    powers = torch.arange(RATES, dtype=numbers.dtype, device=numbers.device) / RATES
    angles = (SCALE * numbers[..., None] / WAVELENGTH**powers).flatten(-2)
    return torch.cat([angles.sin(), angles.cos()], -1)


def cell_boxes(side: int) -> Tensor:
    """Return the boxes of a square grid's cells in raster order, float64 [side * side, 4], fractions of the image."""
    low = torch.arange(side, dtype=torch.float64) / side
    top, left = torch.meshgrid(low, low, indexing="ij")
    corner = torch.stack([left, top], -1).flatten(0, 1)
    return torch.cat([corner, corner + 1 / side], -1)


SMALLEST_GATE = 1e-6
DIRECTIONS = ("log_index", "learned")


class RelativeSpatialEncoding(nn.Module):
    """The bias of an attention over boxes.

    Args:
        heads: H.
        per_quadrant: d, directions in each quadrant; 0: without direction.
        direction: "log_index": log(s_mn + 1) is a fifth number of Eq. 10; "learned": each direction has a learned
            vector instead, and a further one stands for boxes of one center.
        plus_one: see `relative_geometry`.
    """

    def __init__(self, *, heads: int, per_quadrant: int, direction: str, plus_one: bool) -> None:
        super().__init__()
        if direction not in DIRECTIONS:
            raise ValueError(f"unknown direction {direction!r}; known are {[*DIRECTIONS]}")
        self.per_quadrant, self.plus_one = per_quadrant, plus_one
        learned = per_quadrant > 0 and direction == "learned"
        self.directions = nn.Embedding(4 * per_quadrant + 1, 2 * RATES) if learned else None
        self.gate = Linear(2 * RATES * (5 if per_quadrant else 4), heads)

    def numbers(self, boxes: Boxes) -> Tensor:
        """Return Omega' of Eq. 10, [..., N, N, 5], or Omega of Eq. 9 without its direction, [..., N, N, 4]."""
        omega = relative_geometry(boxes, plus_one=self.plus_one)
        if not self.per_quadrant or self.directions is not None:
            return omega
        index = direction_index(boxes.centres, self.per_quadrant)
        return torch.cat([omega, (index + 1).to(omega.dtype).log()[..., None]], -1)

    def embed(self, boxes: Boxes) -> Tensor:
        """Return Emb(Omega'), [..., N, N, 80], 64 without direction."""
        embedded = sinusoidal_embedding(self.numbers(boxes).to(self.gate.weight.dtype))
        if self.directions is None:
            return embedded
        index = direction_index(boxes.centres, self.per_quadrant)
        index = index.masked_fill(same_centre(boxes.centres), 4 * self.per_quadrant)
        return torch.cat([embedded, self.directions(index)], -1)

    def forward(self, boxes: Boxes) -> Tensor:
        """Return log Omega' of Eq. 15, [..., H, N, N]."""
        gate = self.gate(self.embed(boxes)).relu()
        return gate.clamp(min=SMALLEST_GATE).log().movedim(-1, -3)
