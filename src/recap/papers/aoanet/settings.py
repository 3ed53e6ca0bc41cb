"""Settings of AoANet."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field

from recap.settings.base import LayersOr0, Probability, Width
from recap.settings.models import MODELS, WithHeads


@MODELS.register
class AoANetModel(WithHeads):
    """AoANet: attention on attention in the encoder (refiner) and around an LSTM."""

    implementation: ClassVar[str] = "recap.papers.aoanet.model:AoANet"

    kind: Literal["aoanet"]
    d_model: Width = 1024
    heads: Width = 8
    refiner_layers: LayersOr0 = Field(6, description="0: no refiner, and no norm after it")
    feature_dropout: Probability = Field(0.5, description="on embedded visual vectors")
    refiner_dropout: Probability = Field(0.1, description="on what a refiner layer adds")
    attention_dropout: Probability = Field(0.1, description="on attention weights")
    aoa_dropout: Probability = Field(0.3, description="on query and attended vector in the refiner")
    word_dropout: Probability = 0.5
    context_dropout: Probability = Field(
        0.5, description="on the context, into the LSTM and into the output layer"
    )

    @classmethod
    def example(cls) -> Self:
        """Two refiner layers of width 16."""
        return cls(kind="aoanet", d_model=16, heads=2, refiner_layers=2)
