"""Areas of a picture as shares of a grid's cells, and vectors pooled over them."""

from __future__ import annotations

import numpy as np

FAR = 0.5  # cosine distance that a whole picture's edge of distance counts as


def pool(cells: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return means of cells [N, C], each weighted by its share in an area [R, N]: float32 [R, C]."""
    weights = shares / shares.sum(1, keepdims=True)
    pooled: np.ndarray = (weights @ cells).astype(np.float32)
    return pooled


def box_shares(boxes: np.ndarray, size: tuple[int, int], side: int) -> np.ndarray:
    """Return how much of each cell a box covers, float64 [R, side * side] in raster order.

    Args:
        boxes: left, top, right, bottom in pixels, [R, 4].
        size: width and height of the picture.
        side: cells per edge.
    """
    low, high = np.arange(side), np.arange(side) + 1
    columns, rows = (
        np.clip(np.minimum(high, last[:, None]) - np.maximum(low, first[:, None]), 0, 1)
        for first, last in (
            (boxes[:, axis] * side / size[axis], boxes[:, axis + 2] * side / size[axis]) for axis in (0, 1)
        )
    )
    shares: np.ndarray = (rows[:, :, None] * columns[:, None, :]).reshape(len(boxes), -1)
    return shares


def mask_shares(masks: np.ndarray, side: int) -> np.ndarray:
    """Return how much of each cell a mask covers, [R, edge, edge] -> float64 [R, side * side] in raster order."""
    bounds = np.linspace(0, masks.shape[1], side + 1).round().astype(int)
    starts, counts = bounds[:-1], np.diff(bounds)
    sums = np.add.reduceat(np.add.reduceat(masks.astype(np.float64), starts, axis=1), starts, axis=2)
    shares: np.ndarray = (sums / np.outer(counts, counts)).reshape(len(masks), -1)
    return shares


def tight_boxes(masks: np.ndarray) -> np.ndarray:
    """Return the boxes of masks that are not empty, [R, H, W] -> float32 [R, 4] left, top, right, bottom."""
    boxes = []
    for mask in masks:
        rows, columns = mask.any(1).nonzero()[0], mask.any(0).nonzero()[0]
        boxes.append((columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))
    return np.asarray(boxes, np.float32)


def merged_cells(cells: np.ndarray, side: int, count: int) -> np.ndarray:
    """Return connected groups of cells that are alike, bool [R, side, side]; every cell is in exactly one.

    Cells are merged until so many groups are left (average linkage); two cells are as far apart as the cosine of their
    vectors says, plus a little for their distance in the picture. A group that falls into parts that do not touch is
    several.

    Args:
        cells: vectors in raster order, [side * side, C].
        side: cells per edge.
        count: groups of cells that are alike; there may be more connected ones.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.ndimage import label
    from scipy.spatial.distance import pdist

    rows, columns = np.divmod(np.arange(side * side), side)
    lengths = np.linalg.norm(cells, axis=1, keepdims=True)
    directions = cells / np.maximum(lengths, 1e-12)
    unlike = np.clip(1 - directions @ directions.T, 0, 2)[np.triu_indices(side * side, 1)]
    apart = pdist(np.stack([rows, columns], 1) / side)
    groups = fcluster(linkage(unlike + FAR * apart, "average"), count, "maxclust").reshape(side, side)
    found: list[np.ndarray] = []
    for group in np.unique(groups):
        parts, number = label(groups == group)
        found.extend(parts == part for part in range(1, number + 1))
    return np.stack(found)
