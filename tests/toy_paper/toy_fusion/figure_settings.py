"""Settings of the toy's figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from recap.settings.figures import FIGURES, ModelFigure


@FIGURES.register
class LengthsFigure(ModelFigure):
    """How many words each model says of each test image."""

    implementation: ClassVar[str] = "toy_fusion.figures:write_lengths"
    files: ClassVar[Mapping[str, str]] = {"lengths.csv": "lengths"}
    caption: ClassVar[str] = "Words per caption of the first seed."
    needs_images: ClassVar[bool] = False

    kind: Literal["lengths"]
