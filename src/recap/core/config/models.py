"""Settings of models: ``params/models/``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, PositiveFloat, PositiveInt, ValidationInfo, field_validator

from recap.core.config.base import Strict


class WithHeads(Strict):
    """What has a width that its heads share; the rules of the builders, so that they are known before the first job."""

    model_config = ConfigDict(validate_default=True)

    @field_validator("d_model", "heads", check_fields=False)
    @classmethod
    def _divisible(cls, value: int, info: ValidationInfo) -> int:
        sizes = {**info.data, str(info.field_name): value}  # whichever of the two comes last sees both
        if {"d_model", "heads"} <= sizes.keys() and sizes["d_model"] % sizes["heads"]:
            raise ValueError(f"d_model {sizes['d_model']} is not divisible by {sizes['heads']} heads")
        return value


class TransformerModel(WithHeads):
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

    @field_validator("visual_positions")
    @classmethod
    def _halves(cls, value: str, info: ValidationInfo) -> str:
        if value == "grid" and info.data.get("d_model", 0) % 4:
            raise ValueError(f"grid positions need a d_model divisible by 4, not {info.data['d_model']}")
        return value


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


Share = Annotated[float, Field(ge=0, lt=1)]


class XLinearSizes(WithHeads):
    """What the models made of X-Linear blocks share."""

    heads: PositiveInt = 8
    activation: Literal["celu", "elu", "relu"] = Field("celu", description="of the blocks' projections; paper: ELU")
    alpha: PositiveFloat = Field(1.3, description="scale of the exponential unit")
    feature_dropout: Share = Field(0.5, description="on embedded visual vectors")
    joint_dropout: Share = Field(0.1, description="within the blocks")
    mix_dropout: Share = Field(0.3, description="on what updates the vectors between blocks")


class XLanModel(XLinearSizes):
    """X-LAN and the variants of its ablation."""

    kind: Literal["xlan"]
    d_model: PositiveInt = 1024
    d_joint: PositiveInt = Field(64, description="width of the joint vector in a head; paper: 512 over all heads")
    encoder_layers: int = Field(4, ge=0, description="X-Linear blocks in the encoder")
    decoder_attention: Literal["x_linear", "conventional"] = "x_linear"
    word_dropout: Share = 0.5
    attention_dropout: Share = Field(0.5, description="on the blocks' outputs")
    context_dropout: Share = Field(0.5, description="on the context, into the LSTM and into the output layer")


class XTransformerModel(XLinearSizes):
    """The X-Transformer."""

    kind: Literal["x_transformer"]
    d_model: PositiveInt = 768
    d_joint: PositiveInt = Field(48, description="width of the joint vector in a head")
    d_feed_forward: PositiveInt = 3072
    encoder_layers: int = Field(6, ge=0)
    decoder_layers: PositiveInt = 6
    max_vectors: PositiveInt | None = Field(None, description="vectors of an image that are read; null: all")
    dropout: Share = Field(0.5, description="encoder blocks, feed-forward layers, first global vector")
    decoder_dropout: Share = Field(0.5, description="on the outputs of the decoder's blocks")
    word_dropout: Share = 0.1
    output_dropout: Share = 0.5


class UpDownModel(Strict):
    """The Up-Down model."""

    kind: Literal["up_down"]
    d_model: PositiveInt = Field(1000, description="width of both LSTMs")
    d_word: PositiveInt = 1000
    d_attention: PositiveInt = 512
    d_feature: int = Field(0, ge=0, description="visual vectors are projected to this width; 0: used as they are")
    attention_activation: Literal["tanh", "relu"] = "tanh"
    word_activation: Literal["none", "relu"] = "none"
    dropout: Share = 0.5


Model = Annotated[
    TransformerModel | UpDownModel | XLanModel | XTransformerModel | ZodiacModel, Field(discriminator="kind")
]
