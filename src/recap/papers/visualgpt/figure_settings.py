"""Settings of VisualGPT's figures: 2 (parts of speech), 4 (gate functions), and 5, 6, 10 and 11 (gates)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from recap.data.parts_of_speech import parts_of_speech
from recap.settings.base import neutral
from recap.settings.figures import FIGURES, ModelFigure
from recap.settings.kinds import OneOf

PartOfSpeech = Annotated[str, OneOf(parts_of_speech)]


@FIGURES.register
class GatesFigure(ModelFigure):
    """The gates behind the words of the test captions (section 5.6)."""

    implementation: ClassVar[str] = "recap.papers.visualgpt.figures:draw_gates"
    files: ClassVar[Mapping[str, str]] = {
        "gates.png": "gates",
        "words.png": "captions",
        "parts.png": "visual score by part of speech",
        "gates.csv": "",
        "parts.csv": "",
    }
    caption: ClassVar[str] = (
        "What the gates of VisualGPT let through, for captions of the first seed. Blue and higher: more of the "
        "image; the rest comes from the language model. The numbers behind the figures are in the CSVs beside them."
    )
    most_rows: ClassVar[int | None] = 1

    kind: Literal["gates"]
    count: PositiveInt = Field(10, description="captions that are shown beside their images")
    beam: PositiveInt = Field(3, description="beam size of the search")
    printed: dict[PartOfSpeech, float] = neutral(
        {}, description="part of speech -> printed mean visual score (Figure 10)"
    )


@FIGURES.register
class GateFunctionsFigure(ModelFigure):
    """Both gates over the value that they gate, as Eq. 5 and 6 have them (Figure 4)."""

    implementation: ClassVar[str] = "recap.papers.visualgpt.gate_functions:draw_gate_functions"
    files: ClassVar[Mapping[str, str]] = {"gate_functions.png": "gate functions"}
    caption: ClassVar[str] = (
        "The self-resurrecting activation functions and their normalized form, computed by the layers of the model."
    )
    needs_images: ClassVar[bool] = False
    needs_models: ClassVar[bool] = False

    kind: Literal["gate_functions"]
    tau: float = Field(0.2, ge=0, lt=0.5, description="threshold; from 0.5 on both gates may be zero")


@FIGURES.register
class PartsOfSpeechFigure(ModelFigure):
    """The parts of speech of captions and of a text (Figure 2)."""

    implementation: ClassVar[str] = "recap.papers.visualgpt.parts_figure:draw_shares"
    files: ClassVar[Mapping[str, str]] = {"parts_of_speech.png": "parts of speech", "parts_of_speech.csv": ""}
    caption: ClassVar[str] = (
        "Share of each part of speech among the words of the training captions and of a text, of at most 10,000 "
        "sentences each, evenly spread. Beside the bars: by how much the share in captions is above that in the text. "
        "The numbers are in the CSV beside it."
    )
    needs_images: ClassVar[bool] = False
    needs_models: ClassVar[bool] = False

    kind: Literal["parts_of_speech"]
    text: str = Field(min_length=1, description="file of the text, below the profile's inputs")
    title: str = Field(min_length=1, description="what the figure calls the text")
    printed: dict[PartOfSpeech, float] = neutral(
        {}, description="part of speech -> by how many percent the printed share in captions is above that in the text"
    )

    def texts(self) -> list[str]:
        """Return the file of the text."""
        return [self.text]
