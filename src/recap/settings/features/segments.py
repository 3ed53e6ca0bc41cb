"""Segments of a detectron2 panoptic model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

from pydantic import Field, PositiveInt

from recap.settings.base import neutral
from recap.settings.features import FEATURES, FeaturesConfig, Weights
from recap.settings.features.stored import BOX_BYTES, NUMBER_BYTES, StoredStream
from recap.settings.sizes import Cells, Edge


@FEATURES.register
class SegmentFeatures(FeaturesConfig):
    """What a detectron2 panoptic model sees, as a second stream beside a grid."""

    extractor: ClassVar[str] = "recap.features.segments:extract_segments"
    encoder: ClassVar[str] = "recap.share.photo_features:detectron"
    needs_detectron2: ClassVar[bool] = True

    kind: Literal["segments"]
    weights: Weights = Field(description="'random', or a file relative to `inputs`, as for regions")
    form: Literal["occupancy", "segments"] = Field(
        "occupancy", description="share of each class in each cell; or one vector pooled over each segment"
    )
    grid: Cells = Field(7, description="cells per edge, for form occupancy")
    short_side: Edge = 800
    long_side: Edge = 1333
    seed: int = Field(0, description="seed of random weights")
    batch_size: PositiveInt = neutral(8, description="pictures of one size that pass through the backbone at a time")

    def vectors_per_picture(self) -> int | None:
        """Return the number of cells, if the vectors are those of cells."""
        return self.grid**2 if self.form == "occupancy" else None

    def stored(self, named: Callable[[str], FeaturesConfig]) -> Mapping[str, StoredStream]:
        """Return the stream of cells, or of segments with boxes and classes."""
        if self.vector_width is None:
            return {}
        if self.form == "occupancy":
            return {"segment": StoredStream(self.grid**2, self.vector_width)}
        if self.vector_count is None:
            return {}
        return {"segment": StoredStream(self.vector_count, self.vector_width, BOX_BYTES + NUMBER_BYTES)}
