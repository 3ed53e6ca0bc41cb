"""Settings of X-LAN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from recap.core.config.models.base import MODELS, Probability
from recap.core.config.models.x_linear import XLinearSizes
from recap.core.config.sizes import LayersOr0, Width


@MODELS.register
class XLanModel(XLinearSizes):
    """X-LAN and the variants of its ablation."""

    implementation: ClassVar[str] = "recap.models.xlan:XLan"
    variants: ClassVar[Sequence[Mapping[str, Any]]] = (
        {"encoder_layers": 0, "decoder_attention": "conventional"},
        {"activation": "relu"},
    )

    kind: Literal["xlan"]
    d_model: Width = 1024
    d_joint: Width = Field(64, description="width of the joint vector in a head; paper: 512 over all heads")
    encoder_layers: LayersOr0 = Field(4, description="X-Linear blocks in the encoder")
    decoder_attention: Literal["x_linear", "conventional"] = "x_linear"
    word_dropout: Probability = 0.5
    attention_dropout: Probability = Field(0.5, description="on the blocks' outputs")
    context_dropout: Probability = Field(0.5, description="on the context, into the LSTM and into the output layer")

    @classmethod
    def example(cls) -> Self:
        """Two blocks of width 16."""
        return cls(kind="xlan", d_model=16, heads=2, d_joint=4, encoder_layers=2)

    @property
    def noam_width(self) -> int:
        """The model's width."""
        return self.d_model
