"""Settings of the X-Transformer."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field

from recap.core.config.models.base import MODELS, Probability
from recap.core.config.models.x_linear import XLinearSizes
from recap.core.config.sizes import Layers, LayersOr0, Width


@MODELS.register
class XTransformerModel(XLinearSizes):
    """The X-Transformer."""

    implementation: ClassVar[str] = "recap.models.x_transformer:XTransformer"

    kind: Literal["x_transformer"]
    d_model: Width = 768
    d_joint: Width = Field(48, description="width of the joint vector in a head")
    d_feed_forward: Width = 3072
    encoder_layers: LayersOr0 = 6
    decoder_layers: Layers = 6
    max_vectors: Width | None = Field(None, description="vectors of an image that are read; null: all")
    dropout: Probability = Field(0.5, description="encoder blocks, feed-forward layers, first global vector")
    decoder_dropout: Probability = Field(0.5, description="on the outputs of the decoder's blocks")
    word_dropout: Probability = 0.1
    output_dropout: Probability = 0.5

    @classmethod
    def example(cls) -> Self:
        """Two layers each side of width 16."""
        return cls(
            kind="x_transformer",
            d_model=16,
            heads=2,
            d_joint=4,
            d_feed_forward=24,
            encoder_layers=2,
            decoder_layers=2,
        )

    @property
    def noam_width(self) -> int:
        """The model's width."""
        return self.d_model
