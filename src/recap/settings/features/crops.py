"""Crops of boxes, each encoded by a timm model."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt

from recap.settings.features import FEATURES, Activation, TimmFeatures, Weights
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
