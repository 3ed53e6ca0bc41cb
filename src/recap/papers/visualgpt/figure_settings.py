"""Settings of VisualGPT's figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, PositiveInt

from recap.settings.model_figures import FIGURES, ModelFigure


@FIGURES.register
class GatesFigure(ModelFigure):
    """The gates behind the words of the test captions (section 5.6)."""

    implementation: ClassVar[str] = "recap.papers.visualgpt.figures:draw_gates"
    files: ClassVar[Mapping[str, str]] = {"gates.png": "gates", "words.png": "captions", "gates.csv": ""}
    caption: ClassVar[str] = (
        "What the gates of VisualGPT let through, for captions of the first seed. Brighter and higher: more of the "
        "image; the rest comes from the language model. The numbers behind both figures are in the CSV beside them."
    )
    most_rows: ClassVar[int | None] = 1

    kind: Literal["gates"]
    count: PositiveInt = Field(10, description="captions that are shown beside their images")
    beam: PositiveInt = Field(3, description="beam size of the search")
