"""Where the vectors of an image are in its picture: for figures of attention, of clusters, and explanations."""

from __future__ import annotations

import math

from recap.core.errors import FeatureError
from recap.models.images import Stream
from recap.reporting.attention import Box, grid_boxes


def vector_boxes(stream: Stream, source: str) -> list[Box]:
    """Return where one image's vectors are, as fractions of it: their boxes, or the cells of a square grid."""
    vectors = int(stream.mask[0].sum())
    side = math.isqrt(vectors)
    if stream.boxes is None and side * side == vectors:
        return grid_boxes(side)
    if stream.boxes is None or stream.sizes is None or not stream.sizes.all():
        raise FeatureError(f"{source}: without boxes and the picture's size only vectors of a square grid can be drawn")
    scaled = (stream.boxes[0] / stream.sizes[0].repeat(2))[stream.mask[0]].clamp(0, 1)
    return [(left, top, right, bottom) for left, top, right, bottom in scaled.tolist()]
