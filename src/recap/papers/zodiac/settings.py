"""Settings of the ZoDIAC-Transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from recap.papers.transformer.settings import TransformerSizes
from recap.settings.base import Probability
from recap.settings.models import MODELS


@MODELS.register
class ZodiacModel(TransformerSizes):
    """The Transformer with ZoDIAC attention (refined attention times an injected intensity)."""

    implementation: ClassVar[str] = "recap.papers.zodiac.model:Zodiac"

    kind: Literal["zodiac"]
    gate: Literal["sigmoid", "tanh", "none"] = "sigmoid"
    zeta: float = Field(1.0, description="ZoneUp constant added to the gate (paper Eq. 8)")
    zodiac_dropout: Probability = Field(
        0.2, description="dropout on the attended values (paper Eq. 3)"
    )
    rap_scope: Literal["head", "printed", "image", "global", "as_released"] = Field(
        "head",
        description=(
            "what one intensity is averaged over; head: in the decoder over the tokens so far; "
            "printed: there over the whole caption, later tokens included; as_released: one "
            "number a call, as the code has it; the beam search then differs from the code's once "
            "a caption of the batch has ended"
        ),
    )
    gelu: bool = Field(True, description="false: the GELU-free ablation of Table IV")
    feed_forward_activation: Literal["none", "relu", "gelu"] = Field(
        "none", description="released code: none"
    )

    @property
    def unused_parameters(self) -> Sequence[str]:
        """Without a gate the intensity is not used."""
        return ("intensity_query",) if self.gate == "none" else ()
