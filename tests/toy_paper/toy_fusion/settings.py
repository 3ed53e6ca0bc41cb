"""Settings of the toy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import PositiveInt

from recap.settings.models import MODELS, ModelConfig


@MODELS.register
class ToyFusionModel(ModelConfig):
    """A mean of words so far and of two streams of vectors."""

    implementation: ClassVar[str] = "toy_fusion.model:ToyFusion"
    example_streams: ClassVar[Mapping[str, int]] = {"grid": 7, "region": 5}

    kind: Literal["toy_fusion"]
    d_model: PositiveInt = 32

    @classmethod
    def example(cls) -> Self:
        """Width 8."""
        return cls(kind="toy_fusion", d_model=8)

    @property
    def noam_width(self) -> int:
        """The model's width."""
        return self.d_model
