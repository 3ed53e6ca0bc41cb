"""Relative spatial encoding: geometry and direction of two boxes as a bias of attention scores (Fusion Transformer,
3.2.2).

    Omega'(m, n) = (Omega(m, n), log s_mn)                (10)
    Omega'(m, n) = ReLU(Emb(Omega') W_G)                  (11), one number per head
    bias         = log Omega'(m, n)                       (15)

Readings where the paper leaves it open: s_mn counts from 1 in Eq. 10, for log 0 of the first direction is no number;
log of what the ReLU made 0 is log 1e-6, as in the code of the papers that it follows; W_G has a bias there, too.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recap.nn.fast.linear import Linear
from recap.papers.fusion.direction import direction_index, same_centre
from recap.papers.fusion.geometry import RATES, Boxes, relative_geometry, sinusoidal_embedding

SMALLEST_GATE = 1e-6
DIRECTIONS = ("log_index", "learned")


class RelativeSpatialEncoding(nn.Module):
    """The bias of an attention over boxes.

    Args:
        heads: H.
        per_quadrant: d, directions in each quadrant; 0: without direction.
        direction: "log_index": log(s_mn + 1) is a fifth number of Eq. 10; "learned": each direction has a learned
            vector instead, and a further one stands for boxes of one centre.
        plus_one: see `recap.papers.fusion.geometry.relative_geometry`.

    Raises:
        ValueError: an unknown direction.
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
