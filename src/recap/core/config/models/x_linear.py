"""Settings that the models made of X-Linear blocks share."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat

from recap.core.config.models.base import Probability, WithHeads
from recap.core.config.sizes import Width


class XLinearSizes(WithHeads):
    """What the models made of X-Linear blocks share."""

    heads: Width = 8
    activation: Literal["celu", "elu", "relu"] = Field("celu", description="of the blocks' projections; paper: ELU")
    alpha: PositiveFloat = Field(1.3, description="scale of the exponential unit")
    feature_dropout: Probability = Field(0.5, description="on embedded visual vectors")
    joint_dropout: Probability = Field(0.1, description="within the blocks")
    mix_dropout: Probability = Field(0.3, description="on what updates the vectors between blocks")
