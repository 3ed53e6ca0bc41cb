"""The relative geometry of boxes, and its sinusoidal embedding (Herdade et al. 2019; Fusion Transformer, Eq. 9).

    Omega(m, n) = (log(|x_m - x_n| / w_m), log(|y_m - y_n| / h_m), log(w_n / w_m), log(h_n / h_m))        (9)

with centre (x, y), width w and height h of a box as fractions of the image. The paper does not say what log 0 is; as in
the code of the papers that it follows, the first two fractions are at least 1e-3. The embedding is Emb(.) of those
papers, too: each number is multiplied by 100 / 1000^(t/8), t = 0 .. 7; first all sines, then all cosines.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SMALLEST_DISTANCE = 1e-3  # of centres, in widths and heights of the query's box
SMALLEST_SIDE = 1e-6  # of a box that is a line or a point
RATES = 8
WAVELENGTH, SCALE = 1000.0, 100.0


@dataclass(frozen=True)
class Boxes:
    """Centre [..., N, 2] and sides [..., N, 2] of boxes, first of width then of height."""

    centres: Tensor
    sides: Tensor

    @classmethod
    def of(cls, corners: Tensor) -> Boxes:
        """Left, top, right, bottom [..., N, 4] -> centres and sides."""
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
