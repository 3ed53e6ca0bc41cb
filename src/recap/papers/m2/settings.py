"""Settings of the Meshed-Memory Transformer."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field

from recap.settings.base import Layers, Probability, Width
from recap.settings.models import MODELS, WithPaddedVectors


@MODELS.register
class M2Model(WithPaddedVectors):
    """M2, the Meshed-Memory Transformer."""

    implementation: ClassVar[str] = "recap.papers.m2.model:M2"

    kind: Literal["m2"]
    d_model: Width = 512
    heads: Width = 8
    d_feed_forward: Width = 2048
    encoder_layers: Layers = 3
    decoder_layers: Layers = 3
    memory_slots: Width = Field(40, description="learned keys and values of each encoder layer")
    max_tokens: Width = Field(
        512, description="positions for <bos> and the words of a caption; released: 54"
    )
    positions: Literal["sinusoid", "noise"] = Field(
        "sinusoid", description="noise: frozen, as the release trains"
    )
    memory_init: Literal["normal", "xavier"] = Field(
        "normal", description="xavier: as the release trains"
    )
    dropout: Probability = 0.1

    @classmethod
    def example(cls) -> Self:
        """Two layers each side of width 16, three slots."""
        return cls(
            kind="m2",
            d_model=16,
            heads=2,
            d_feed_forward=24,
            encoder_layers=2,
            decoder_layers=2,
            memory_slots=3,
        )
