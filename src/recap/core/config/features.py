"""Settings of feature extractors: ``params/features/``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from recap.core.config.base import Strict


class BoxPretraining(Strict):
    """How a backbone first learns to name what the boxes of the training pictures hold."""

    epochs: PositiveInt = 8
    learning_rate: PositiveFloat = Field(8e-3, description="peak of a one-cycle schedule")
    images_per_batch: PositiveInt = 32


class GridFeatures(Strict):
    """Feature maps of a timm backbone, pooled to a square grid."""

    kind: Literal["grid"]
    backbone: str = Field(description="a timm model name")
    weights: str = Field(
        description="'pretrained' (hub), 'random', 'boxes' (trained first on the boxes of the data set's own training "
        "pictures), or a safetensors file relative to `inputs`"
    )
    pretraining: BoxPretraining | None = Field(None, description="for weights 'boxes'")
    activation: Literal["relu", "relu6", "gelu", "silu"] | None = Field(None, description="overrides the activation")
    out_index: int | None = Field(None, description="stage whose map is taken; default: the last, by forward_features")
    image_size: PositiveInt = Field(224, description="edge to which pictures are resized, in pixels")
    grid: PositiveInt = Field(7, description="cells per edge after adaptive average pooling")
    dtype: Literal["float16", "float32"] = Field("float16", description="type of the stored values")
    seed: int = Field(0, description="seed of random weights")
    batch_size: PositiveInt = 32
    shard_size: PositiveInt = Field(1000, description="images a shard: the unit of resuming")

    @model_validator(mode="after")
    def _pretraining_fits(self) -> GridFeatures:
        if (self.weights == "boxes") != (self.pretraining is not None):
            raise ValueError("`pretraining` goes with weights 'boxes', and with no others")
        return self
