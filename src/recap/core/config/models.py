"""Settings of models: ``params/models/``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from recap.core.config.base import Strict


class TransformerModel(Strict):
    """Encoder-decoder Transformer on feature vectors."""

    kind: Literal["transformer"]
    d_model: PositiveInt = 512
    heads: PositiveInt = 8
    d_feed_forward: PositiveInt = 2048
    encoder_layers: PositiveInt = 6
    decoder_layers: PositiveInt = 6
    norm: Literal["pre", "post"] = "pre"
    layer_norm: Literal["biased", "unbiased"] = Field("biased", description="unbiased: Annotated Transformer's form")
    dropout: float = Field(0.1, ge=0, lt=1)
    feature_dropout: float = Field(0.5, ge=0, lt=1, description="dropout after the feature projection")
    visual_positions: Literal["none", "grid"] = Field("none", description="grid: fixed codes of row and column")


class ZodiacModel(TransformerModel):
    """The Transformer with ZoDIAC attention (refined attention times an injected intensity)."""

    kind: Literal["zodiac"]  # type: ignore[assignment]
    gate: Literal["sigmoid", "tanh", "none"] = "sigmoid"
    zeta: float = Field(1.0, description="ZoneUp constant added to the gate (paper Eq. 8)")
    zodiac_dropout: float = Field(0.2, ge=0, lt=1, description="dropout on the attended values (paper Eq. 3)")
    rap_scope: Literal["head", "image", "global", "code"] = Field(
        "head", description="what one intensity is averaged over; decoder self-attention averages the prefix for 'head'"
    )
    gelu: bool = Field(True, description="false: the GELU-free ablation of Table IV")
    feed_forward_activation: Literal["none", "relu", "gelu"] = Field("none", description="published code: none")


Model = Annotated[TransformerModel | ZodiacModel, Field(discriminator="kind")]
