"""VinVL and Oscar regions: ``features.tsv`` with its ``features.lineidx`` (byte position of each line), or one of each
for every split (``train.feature.tsv``).

A line is image id, number of boxes, base64 of float32 [boxes, 2054]; in the packs for captioning, image id and a JSON
with ``num_boxes`` and ``features``. The last six numbers are x1/W, y1/H, x2/W, y2/H, w/W, h/H and stay part of the
vector. The file does not say W and H: boxes are those of a picture of 1 x 1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from recap.core.errors import FeatureError, MissingFeatures
from recap.features.importers.base import ImageIdLookup, no_rows, plain_files
from recap.features.importers.lines import Lines
from recap.features.importers.numbers import decode_vectors, whole
from recap.features.records import REGION, ImageFeatures
from recap.settings.features import ImportedFeatures

_WITH_BOX = 2054  # numbers of a vector that ends with its box
_CORNERS = slice(-6, -2)


class VinvlTsv:
    """Regions of one TSV or several."""

    streams = (REGION,)

    def __init__(self, paths: Sequence[Path], lookup: ImageIdLookup, spec: ImportedFeatures) -> None:
        """Find the images through the .lineidx beside each TSV."""
        files = plain_files(paths, "TSV files")
        offsets = {path: _offsets(path.with_suffix(".lineidx")) for path in files}
        self._lines = Lines(files, lookup, offsets=offsets, damaged=spec.damaged)
        self.ids, self.origins = self._lines.ids, self._lines
        self._lines.settle(self.read)

    def read(self, image_id: int) -> ImageFeatures:
        """Return the vectors of one image."""
        fields, where = self._lines.fields(image_id)
        if len(fields) not in (2, 3):
            raise FeatureError(f"{where}: has {len(fields)} fields, expected 2 or 3; truncated or of another format")
        text, content = fields[1:] if len(fields) == 3 else _from_json(fields[1], where)
        count = whole(text, "the number of boxes", where)
        if not count:
            raise no_rows(image_id, where)
        values = decode_vectors(content, count, where)
        if values.shape[1] != _WITH_BOX:
            return ImageFeatures(image_id, (0, 0), {REGION: values})
        # Of a picture of 1 x 1, because the file does not say its size; float32 may be a little above 1.
        boxes = values[:, _CORNERS].clip(0, 1)
        return ImageFeatures(image_id, (1, 1), {REGION: values, f"{REGION}/boxes": boxes})


def _offsets(path: Path) -> list[int]:
    if not path.is_file():
        raise MissingFeatures(f"{path}: no such file; it must be beside the TSV: fetch it too")
    lines = path.read_bytes().split()
    if not lines or not all(line.isdigit() and len(line) < 19 for line in lines):
        raise FeatureError(f"{path}: expected one byte position per line; fetch it again")
    return [int(line) for line in lines]


def _from_json(field: bytes, where: str) -> tuple[bytes, bytes]:
    try:
        values = json.loads(field)
        return str(values["num_boxes"]).encode(), str(values["features"]).encode()
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise FeatureError(
            f"{where}: no JSON with num_boxes and features ({reason}); truncated or of another format"
        ) from error
