"""Settings of subsets of the training captions: ``params/subsets/``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from recap.settings.base import Strict


class Subset(Strict):
    """How much of the training split is used; ``full`` is {fraction: 1}."""

    fraction: float = Field(1.0, gt=0, le=1, description="share of the training pairs or images")
    unit: Literal["pair", "image"] = Field("pair", description="draw single captions, or images with all captions")
