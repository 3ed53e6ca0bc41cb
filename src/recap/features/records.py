"""What an extractor or an importer gives for one image, and the checks before it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from recap.core.errors import FeatureError
from recap.features.layout import COLUMNS, VALUES

_BEYOND = 1.0  # pixels that a box may reach over the picture's edge: files count edges from 0 or from 1


@dataclass(frozen=True)
class ImageFeatures:
    """The features of one image.

    Attributes:
        image_id: its id.
        size: (width, height) in pixels; (0, 0) if an imported file does not say.
        values: float [N, dim] of the main stream; or several arrays by name: ``region``, ``region/boxes``, ``grid``.
    """

    image_id: int
    size: tuple[int, int]
    values: np.ndarray | Mapping[str, np.ndarray]


def stored_arrays(record: ImageFeatures, *, dtype: str, streams: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the arrays of one image by their path in the file (``grid/values``), in the stored types."""
    if not all(0 <= side < 2**31 for side in record.size):
        raise FeatureError(
            f"image id {record.image_id}: a picture cannot have {record.size[0]} x {record.size[1]} pixels; "
            "look at what gives its size"
        )
    values = record.values if isinstance(record.values, Mapping) else {streams[0]: record.values}
    arrays = {name if "/" in name else f"{name}/{VALUES}": array for name, array in values.items()}
    found = list(dict.fromkeys(name.split("/")[0] for name in arrays))
    if sorted(found) != sorted(streams):
        raise FeatureError(f"image id {record.image_id}: has the streams {found}, expected {list(streams)}")
    stored = {name: _typed(record.image_id, name, array, dtype) for name, array in arrays.items()}
    for stream in streams:
        _check_rows(record, stream, stored)
    return {name: stored[name] for name in sorted(stored, key=lambda name: streams.index(name.split("/")[0]))}


def _typed(image_id: int, name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    """Return one array in its stored type; numbers that are not finite are refused."""
    kind = name.split("/")[1]
    wanted = dtype if kind == VALUES else COLUMNS[kind]
    with np.errstate(over="ignore", invalid="ignore"):
        stored = np.ascontiguousarray(array).astype(wanted)
    # A whole number that does not fit into its type would come back as another one.
    if np.isfinite(stored).all() and (stored.dtype.kind == "f" or np.array_equal(stored, array)):
        return stored
    said = "features" if kind == VALUES else name
    if np.isfinite(array).all():
        todo = "set `dtype: float32`" if wanted == "float16" else "look at what made them"
        raise FeatureError(f"image id {image_id}: the {said} exceed the range of {wanted}; {todo}")
    raise FeatureError(
        f"image id {image_id}: the {said} hold NaN or infinite values; look at the picture and at what made them"
    )


def _check_rows(record: ImageFeatures, stream: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Check shapes and boxes of one stream."""
    values = arrays[f"{stream}/{VALUES}"]
    if values.ndim != 2 or 0 in values.shape:
        raise FeatureError(
            f"image id {record.image_id}: {stream} features of shape {list(values.shape)}, expected [rows, dim] with "
            "at least one row; look at what the extractor gives for this image, or leave it out of the corpus"
        )
    for name, array in arrays.items():
        if name.startswith(f"{stream}/") and len(array) != len(values):
            raise FeatureError(
                f"image id {record.image_id}: {name} has {len(array)} rows, but there are {len(values)} vectors; "
                "make the file again"
            )
    boxes = arrays.get(f"{stream}/boxes")
    if boxes is not None:
        _check_boxes(record, boxes)


def _check_boxes(record: ImageFeatures, boxes: np.ndarray) -> None:
    if boxes.shape[1:] != (4,):
        raise FeatureError(f"image id {record.image_id}: boxes of shape {list(boxes.shape)}, expected [rows, 4]")
    low, high = boxes[:, :2], boxes[:, 2:]
    size = np.asarray(record.size if any(record.size) else (np.inf, np.inf), np.float32)
    turned = (high < low).any(1)
    wrong = turned if turned.any() else ((low < -_BEYOND) | (high > size + _BEYOND)).any(1)
    if wrong.any():
        box = [round(float(number), 1) for number in boxes[wrong.argmax()]]
        problem = f"is outside the image of {record.size[0]} x {record.size[1]} pixels; correct the boxes, or clip them"
        if turned.any():
            problem = "ends before it begins; write left, top, right and bottom, not x, y, width and height"
        raise FeatureError(f"image id {record.image_id}: box {box} {problem}")
