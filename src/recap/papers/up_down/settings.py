"""Settings of Up-Down."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field

from recap.settings.base import Probability, Width, WidthOr0
from recap.settings.models import MODELS, ModelConfig


@MODELS.register
class UpDownModel(ModelConfig):
    """The Up-Down model."""

    implementation: ClassVar[str] = "recap.papers.up_down.model:UpDown"

    kind: Literal["up_down"]
    d_model: Width = Field(1000, description="width of both LSTMs")
    d_word: Width = 1000
    d_attention: Width = 512
    d_feature: WidthOr0 = Field(
        0, description="visual vectors are projected to this width; 0: used as they are"
    )
    word_activation: Literal["none", "relu"] = "none"
    dropout: Probability = 0.5

    @classmethod
    def example(cls) -> Self:
        """LSTMs of width 16."""
        return cls(kind="up_down", d_model=16, d_word=8, d_attention=6)

    @property
    def noam_width(self) -> int:
        """The width of the LSTMs."""
        return self.d_model
