"""Boxes (left, top, right, bottom) and masks: overlaps, suppression, tight boxes, shares of a grid's cells."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def suppressed_confidence(boxes: Tensor, scores: Tensor, *, overlap: float) -> tuple[Tensor, Tensor]:
    """Return each box's highest score among the classes in which it survives suppression [R], and that class [R].

    In each class, a box that overlaps one of higher score by more than ``overlap`` (intersection over union) is
    dropped; exact, for all classes at once. A box that survives nowhere has confidence 0 and its best class.

    Args:
        boxes: [R, 4].
        scores: probabilities [R, classes], without the background.
    """
    near = intersection_over_union(boxes) > overlap
    near.fill_diagonal_(False)
    order = scores.argsort(stable=True, dim=0, descending=True).T  # [classes, R]
    classes = torch.arange(scores.shape[1], device=scores.device)
    alive = torch.ones_like(order, dtype=torch.bool)
    for rank in range(order.shape[1]):
        box = order[:, rank]
        survives = alive[classes, box]
        alive &= ~(near[box] & survives[:, None])
    confidence, best = (scores * alive.T).max(1)
    return confidence, torch.where(confidence > 0, best, scores.argmax(1))


def rising_suppression(boxes: Tensor, scores: Tensor, *, count: int) -> tuple[Tensor, Tensor]:
    """Return each box's best score if it survives suppression by boxes of any class, else 0 [R]; and its class [R].

    The overlap above which a box is dropped rises from 0.3 to 0.9 by 0.1 until ``count`` boxes survive, as in
    py-bottom-up-attention's script for COCO. Arguments as for `suppressed_confidence`.
    """
    best, classes = scores.max(1)
    for tenths in range(3, 10):
        confidence, _ = suppressed_confidence(boxes, best[:, None], overlap=tenths / 10)
        if int((confidence > 0).sum()) >= count:
            break
    return confidence, classes


def choose(confidence: Tensor, *, threshold: float, least: int, most: int) -> tuple[Tensor, Tensor]:
    """Return the indices of the up to ``most`` regions of highest confidence, from the highest down, and how many of
    them to keep: those at or above ``threshold``, but at least ``least`` (or as many as there are).

    Their number stays a tensor, so that a GPU need not be waited for.
    """
    order = confidence.argsort(stable=True, descending=True)[:most]
    return order, (confidence >= threshold).sum().clamp(min(least, len(order)), len(order))


def intersection_over_union(boxes: Tensor) -> Tensor:
    """Return the overlap of all pairs [R, R] of boxes [R, 4]."""
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp_min(0).prod(-1)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return shared / (area[:, None] + area[None, :] - shared).clamp_min(1e-9)


def tight_boxes(masks: np.ndarray) -> np.ndarray:
    """Return the boxes of masks that are not empty, [R, H, W] -> float32 [R, 4]."""
    boxes = []
    for mask in masks:
        rows, columns = mask.any(1).nonzero()[0], mask.any(0).nonzero()[0]
        boxes.append((columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))
    return np.asarray(boxes, np.float32)


def box_shares(boxes: np.ndarray, size: tuple[int, int], side: int) -> np.ndarray:
    """Return how much of each cell a box covers, float64 [R, side * side] in raster order.

    Args:
        boxes: in pixels, [R, 4].
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
