"""Bottom-up regions as TSV with base64 (Anderson et al. 2018): the original six columns, or ten with classes.

Six: image_id, image_w, image_h, num_boxes, boxes, features. Ten: img_id, img_h, img_w, objects_id, objects_conf,
attrs_id, attrs_conf, num_boxes, boxes, features; ids are int64, all other arrays float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from recap.core.errors import FeatureError
from recap.features.importers.base import ImageIdLookup, no_rows, plain_files
from recap.features.importers.lines import Lines
from recap.features.importers.numbers import decode_array, decode_vectors, whole
from recap.features.records import REGION, ImageFeatures
from recap.settings.features import ImportedFeatures


class BottomUpTsv:
    """Regions of several TSV files, which the original download comes in."""

    streams = (REGION,)

    def __init__(self, paths: Sequence[Path], lookup: ImageIdLookup, spec: ImportedFeatures) -> None:
        """Find the images of all files."""
        self._lines = Lines(plain_files(paths, "TSV files"), lookup, damaged=spec.damaged)
        self.ids, self.origins = self._lines.ids, self._lines
        self._lines.settle(self.read)

    def read(self, image_id: int) -> ImageFeatures:
        """Return vectors and boxes of one image, and classes and attributes where the file has them."""
        fields, where = self._lines.fields(image_id)
        if len(fields) not in (6, 10):
            raise FeatureError(f"{where}: has {len(fields)} fields, expected 6 or 10; truncated or of another format")
        ten = len(fields) == 10
        first, second = (whole(field, "a side of the image", where) for field in fields[1:3])
        count = whole(fields[-3], "num_boxes", where)
        if not count:
            raise no_rows(image_id, where)
        arrays: dict[str, np.ndarray] = {
            REGION: decode_vectors(fields[-1], count, where),
            f"{REGION}/boxes": decode_array(fields[-2], "float32", (count, 4), where),
        }
        if ten:
            columns = (("classes", "int64"), ("class_scores", "float32"), ("attributes", "int64"))
            for (name, dtype), field in zip((*columns, ("attribute_scores", "float32")), fields[3:7], strict=True):
                arrays[f"{REGION}/{name}"] = decode_array(field, dtype, (count,), where)
        return ImageFeatures(image_id, (second, first) if ten else (first, second), arrays)
