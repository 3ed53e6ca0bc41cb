"""Regions laid out as the cells of a grid (ACF, section 3.1, "Expansion on ROI feature")."""

from __future__ import annotations

import torch
from torch import Tensor


def region_cells(boxes: Tensor, mask: Tensor, height: int) -> Tensor:
    """Return which region is in each cell of a grid of `height` rows, in raster order.

    Regions sorted by the horizontal center fill one column after the other; within a column they are sorted by the
    vertical center. Ties go by number. Only the last column of an image may be short: below its regions are dummies.

    Args:
        boxes: [B, N, 4], left, top, right, bottom.
        mask: [B, N], True where a region is real.
        height: H, rows of the grid; it gets ceil(N / H) columns.

    Returns:
        [B, H W], numbers of regions; N in the cell of a dummy.
    """
    images, regions, _ = boxes.shape
    across, down = boxes[..., 0] + boxes[..., 2], boxes[..., 1] + boxes[..., 3]  # twice the centers
    order = across.masked_fill(~mask, torch.inf).argsort(stable=True)
    order = order.masked_fill(~mask.gather(1, order), regions)
    width = -(-regions // height)
    dummies = order.new_full((images, width * height - regions), regions)
    columns = torch.cat([order, dummies], 1).view(images, width, height).sort(-1).values  # ties go by number
    below = torch.cat([down, down.new_zeros(images, 1)], 1).gather(1, columns.flatten(1)).view_as(columns)
    within = below.masked_fill(columns == regions, torch.inf).argsort(dim=-1, stable=True)
    return columns.gather(-1, within).transpose(1, 2).flatten(1)


def cell_of_region(cells: Tensor, regions: int) -> Tensor:
    """Return the cell of each region, [B, N], from the region of each cell [B, M]; 0 where a region has none."""
    places = torch.arange(cells.shape[1], device=cells.device).expand_as(cells)
    return cells.new_zeros(len(cells), regions + 1).scatter_(1, cells, places)[:, :regions]
