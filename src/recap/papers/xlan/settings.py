"""Settings of X-LAN and the X-Transformer."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, PositiveFloat

from recap.settings.base import Layers, LayersOr0, Probability, Width
from recap.settings.models import MODELS, WithHeads


class XLinearSizes(WithHeads):
    """What the models made of X-Linear blocks share."""

    heads: Width = 8
    d_joint: Width
    activation: Literal["celu", "elu", "relu"] = Field(
        "celu", description="of the blocks' projections; paper: ELU"
    )
    alpha: PositiveFloat = Field(1.3, description="scale of the exponential unit")
    feature_dropout: Probability = Field(0.5, description="on embedded visual vectors")
    joint_dropout: Probability = Field(0.1, description="within the blocks")
    mix_dropout: Probability = Field(0.3, description="on what updates the vectors between blocks")


@MODELS.register
class XLanModel(XLinearSizes):
    """X-LAN and the variants of its ablation."""

    implementation: ClassVar[str] = "recap.papers.xlan.model:XLan"

    kind: Literal["xlan"]
    d_model: Width = 1024
    d_joint: Width = Field(
        64, description="width of the joint vector in a head; paper: 512 over all heads"
    )
    encoder_layers: LayersOr0 = Field(4, description="X-Linear blocks in the encoder")
    decoder_attention: Literal["x_linear", "conventional"] = "x_linear"
    word_dropout: Probability = 0.5
    attention_dropout: Probability = Field(0.5, description="on the blocks' outputs")
    context_dropout: Probability = Field(
        0.5, description="on the context, into the LSTM and into the output layer"
    )

    @classmethod
    def example(cls) -> Self:
        """Two blocks of width 16."""
        return cls(kind="xlan", d_model=16, heads=2, d_joint=4, encoder_layers=2)


@MODELS.register
class XTransformerModel(XLinearSizes):
    """The X-Transformer."""

    implementation: ClassVar[str] = "recap.papers.xlan.model:XTransformer"

    kind: Literal["x_transformer"]
    d_model: Width = 768
    d_joint: Width = Field(48, description="width of the joint vector in a head")
    d_feed_forward: Width = 3072
    encoder_layers: LayersOr0 = 6
    decoder_layers: Layers = 6
    max_vectors: Width | None = Field(
        None, description="vectors of an image that are read; null: all"
    )
    dropout: Probability = Field(
        0.5, description="encoder blocks, feed-forward layers, first global vector"
    )
    decoder_dropout: Probability = Field(0.5, description="on the outputs of the decoder's blocks")
    word_dropout: Probability = 0.1
    output_dropout: Probability = 0.5

    @classmethod
    def example(cls) -> Self:
        """Two layers each side of width 16."""
        sizes = {"d_model": 16, "heads": 2, "d_joint": 4, "d_feed_forward": 24}
        return cls(kind="x_transformer", **sizes, encoder_layers=2, decoder_layers=2)
