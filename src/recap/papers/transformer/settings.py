"""Settings of the Transformer."""

from __future__ import annotations

from typing import ClassVar, Literal, Self, get_args

from pydantic import Field

from recap.settings.base import Layers, Probability, Width, omitted_at_default, reject_if
from recap.settings.models import MODELS, WithHeads


class TransformerSizes(WithHeads):
    """What the Transformer and the models that change its layers share."""

    d_model: Width = 512
    heads: Width = 8
    d_feed_forward: Width = 2048
    encoder_layers: Layers = 6
    decoder_layers: Layers = 6
    norm: Literal["pre", "post"] = "pre"
    layer_norm: Literal["biased", "unbiased"] = Field(
        "biased", description="unbiased: Annotated Transformer's form"
    )
    dropout: Probability = 0.1
    feature_dropout: Probability = Field(0.5, description="dropout after the feature projection")
    visual_positions: Literal["none", "grid"] = Field(
        "none", description="grid: fixed codes of row and column"
    )
    feed_forward_activation: Literal["none", "relu", "gelu"] = omitted_at_default("relu")

    _quarters = reject_if(
        lambda model: model.visual_positions == "grid" and model.d_model % 4,
        "visual_positions: grid needs a d_model divisible by 4, not {d_model}",
    )

    @classmethod
    def example(cls) -> Self:
        """Two layers each side of width 16."""
        (kind,) = get_args(cls.model_fields["kind"].annotation)
        return cls(
            kind=kind, d_model=16, heads=2, d_feed_forward=24, encoder_layers=2, decoder_layers=2
        )

    @property
    def fixed_vectors(self) -> bool:
        """Grid positions read the side of the grid off the number of vectors."""
        return self.visual_positions == "grid"


@MODELS.register
class TransformerModel(TransformerSizes):
    """Encoder-decoder Transformer on feature vectors."""

    implementation: ClassVar[str] = "recap.papers.transformer.model:Transformer"

    kind: Literal["transformer"]
