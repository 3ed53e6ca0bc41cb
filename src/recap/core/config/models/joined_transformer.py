"""Settings of the Transformer on two joined streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from recap.core.config.models.base import MODELS
from recap.core.config.models.transformer import TransformerModel


@MODELS.register
class JoinedTransformerModel(TransformerModel):
    """Transformer on the vectors of two streams, one after the other."""

    implementation: ClassVar[str] = "recap.models.joined_transformer:JoinedTransformer"
    example_streams: ClassVar[Mapping[str, int]] = {"grid": 7, "region": 5}
    variants: ClassVar[Sequence[Mapping[str, Any]]] = ({"norm": "post"},)

    kind: Literal["joined_transformer"]  # type: ignore[assignment]
    visual_positions: Literal["none"] = Field("none", description="a second stream need not be a grid")

    @classmethod
    def example(cls) -> Self:
        """As the Transformer's."""
        return cls(
            kind="joined_transformer", d_model=16, heads=2, d_feed_forward=24, encoder_layers=2, decoder_layers=2
        )
