"""What an extractor or an importer gives for one image, and the checks before it is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from recap.core.errors import FeatureError

GRID, REGION, SEGMENT = "grid", "region", "segment"
VALUES = "values"
DTYPES = ("float16", "float32")
COLUMNS = {
    "boxes": "float32",  # [rows, 4] left, top, right, bottom in pixels of the original picture
    "classes": "int32",  # [rows]
    "class_scores": "float32",  # [rows]
    "class_probabilities": "float32",  # [rows, classes]
    "attributes": "int32",  # [rows]
    "attribute_scores": "float32",  # [rows]
    "cells": "uint8",  # [rows, cells] the grid cells that a region touches
}
# pixels that a box may reach over the picture's edge: files count edges from 0 or from 1
_BEYOND = 1.0


@dataclass(frozen=True)
class ImageFeatures:
    """The features of one image."""

    image_id: int
    size: tuple[int, int]  #: (width, height) in pixels; (0, 0) if an imported file does not say
    #: Float [N, dim] of the main stream; or several arrays by name:
    #: ``region``, ``region/boxes``, ``grid``.
    values: np.ndarray | Mapping[str, np.ndarray]


def stored_arrays(
    record: ImageFeatures, *, dtype: str, streams: Sequence[str]
) -> dict[str, np.ndarray]:
    """Return the arrays of one image by path in the file (``grid/values``), as stored."""
    image = f"image id {record.image_id}"
    values = record.values if isinstance(record.values, Mapping) else {streams[0]: record.values}
    arrays = {name if "/" in name else f"{name}/{VALUES}": array for name, array in values.items()}
    own = list(dict.fromkeys(name.split("/")[0] for name in arrays))
    if sorted(own) != sorted(streams):
        raise FeatureError(f"{image}: has the streams {own}, expected {list(streams)}")
    stored = {}
    for path in sorted(arrays, key=lambda path: streams.index(path.split("/")[0])):
        stream, name = path.split("/")
        rows = np.shape(arrays[f"{stream}/{VALUES}"])
        shape = np.shape(arrays[path])
        if len(rows) != 2 or 0 in rows or shape[0] != rows[0]:
            raise FeatureError(
                f"{image}: {path} of shape {list(shape)} beside vectors of {list(rows)}, expected "
                "[rows, dim] with at least one row; look at what the extractor gives for this "
                "image, or leave it out of the corpus"
            )
        stored[path] = _typed(image, path, arrays[path], dtype if name == VALUES else COLUMNS[name])
        if name == "boxes":
            _check_boxes(image, record.size, stored[path])
    return stored


def _typed(image: str, path: str, array: np.ndarray, dtype: str) -> np.ndarray:
    """Return one array in its stored type; numbers that are not finite are refused."""
    with np.errstate(over="ignore", invalid="ignore"):
        stored = np.ascontiguousarray(array).astype(dtype)
    # A whole number that does not fit into its type would come back as another one.
    if np.isfinite(stored).all() and (stored.dtype.kind == "f" or np.array_equal(stored, array)):
        return stored
    problem = "hold NaN or infinite values"
    if np.isfinite(array).all():
        problem = f"exceed the range of {dtype} (`dtype: float32` has the widest)"
    raise FeatureError(f"{image}: {path} {problem}; look at the picture and at what made them")


def _check_boxes(image: str, size: tuple[int, int], boxes: np.ndarray) -> None:
    if boxes.shape[1:] != (4,):
        raise FeatureError(f"{image}: boxes of shape {list(boxes.shape)}, expected [rows, 4]")
    low, high = boxes[:, :2], boxes[:, 2:]
    edges = np.asarray(size if any(size) else (np.inf, np.inf), np.float32)
    inside = (low <= high) & (low >= -_BEYOND) & (high <= edges + _BEYOND)
    for box in boxes[~inside.all(1)][:1]:
        raise FeatureError(
            f"{image}: box {[round(float(number), 1) for number in box]} is not inside the picture "
            f"of {size[0]} x {size[1]} pixels; write left, top, right and bottom, not x, y, width "
            "and height, or clip the boxes"
        )


def image_digest(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the sha256 of one image's arrays: name , type, shape and bytes."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.name} {list(array.shape)}\0".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
