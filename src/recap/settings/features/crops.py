"""Crops of boxes, each encoded by a timm model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt

from recap.settings.features import FEATURES, Activation, FeaturesConfig, TimmFeatures, Weights
from recap.settings.features.stored import BOX_BYTES, StoredStream
from recap.settings.outside import Name
from recap.settings.sizes import Edge


@FEATURES.register
class CropFeatures(TimmFeatures):
    """One vector per box: the box is cut out and encoded by a timm model."""

    extractor: ClassVar[str] = "recap.features.crops:extract_crops"
    no_encoder: ClassVar[str] = "they are crops of boxes that other features give, and a photo brings no boxes"

    kind: Literal["crops"]
    boxes: Name = Field(description="name of the features whose store has the boxes")
    weights: Weights = Field(description="'pretrained' (hub), 'random', or a safetensors file relative to `inputs`")
    activation: Activation | None = Field(None, description="overrides the activation")
    image_size: Edge = Field(224, description="edge of the square that a crop becomes, in pixels")
    embedding: Literal["projected", "pooled"] = Field(
        "pooled", description="what CLIP's projection gives, or the pooled vector before the head"
    )
    crop: Literal["squash", "centre"] = Field(
        "centre", description="centre: shorter side to image_size, then its middle; squash: aspect is given up"
    )
    margin: NonNegativeFloat = Field(0.0, description="how much of its sides a box is widened by, all around")
    seed: int = Field(0, description="seed of random weights")
    batch_size: PositiveInt = Field(64, description="crops encoded at a time, of several pictures")

    def boxes_from(self) -> str | None:
        """Return the name of the features whose boxes are cut out."""
        return self.boxes

    def stored(self, named: Callable[[str], FeaturesConfig]) -> Mapping[str, StoredStream]:
        """Return one stream with a vector of each box."""
        boxes = named(self.boxes).stored(named).get("region")
        if boxes is None or self.vector_width is None:
            return {}
        return {"region": StoredStream(boxes.vectors, self.vector_width, BOX_BYTES, boxes.at_most)}
