"""Settings of VisualGPT, its baselines and its ablations, and of its figures: 2 (parts of speech),
4 (gate functions) and 5, 6, 10 and 11 (gates)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveInt

from recap.data.tokenizer import parts_of_speech
from recap.settings.base import Layers, Probability, Width, omitted_at_default, reject_if
from recap.settings.figures import FIGURES, ModelFigure
from recap.settings.kinds import OneOf
from recap.settings.models import MODELS, WithPaddedVectors

GPT2 = "hub:openai-community/gpt2@607a30d783dfa663caf39e06633721c8d4cfcd7e"  # GPT-2 small


@MODELS.register
class VisualGptModel(WithPaddedVectors):
    """GPT-2 with cross-attention to an image encoder, joined by SRAU or another way."""

    implementation: ClassVar[str] = "recap.papers.visualgpt.model:VisualGpt"

    kind: Literal["visual_gpt"]
    d_model: Width = 768
    heads: Width = 12
    d_feed_forward: Width = Field(3072, description="of GPT-2's blocks")
    decoder_layers: Layers = Field(12, description="the first so many blocks of GPT-2")
    positions: Width = Field(1024, description="learned positions: the longest caption in tokens")
    encoder_layers: Layers = 3
    d_encoder_feed_forward: Width = 2048
    encoder: Literal["plain", "memory", "aoa_baseline"] = Field(
        "plain",
        description=(
            "layers of the image encoder; memory: with M2's slots; aoa_baseline: the AoA "
            "Transformer's"
        ),
    )
    memory_slots: Width = Field(40, description="for encoder memory")
    fusion: Literal["srau", "plain", "meshed", "aoa", "aoa_baseline"] = Field(
        "srau",
        description=(
            "what joins the state with the cross-attention; all but srau and meshed use the last "
            "level"
        ),
    )
    gate: Literal["released", "paper"] = Field(
        "released",
        description=(
            "srau: learned for each encoder level (the code), or without parameters (paper Eq. 5)"
        ),
    )
    tau: float = Field(0.2, ge=0, lt=1, description="srau: gates that are not above it are zero")
    gate_activation: Literal["sigmoid", "leaky_relu", "gelu"] = Field(
        "sigmoid",
        description="srau: the others have no upper limit, and the training diverges (section 5.4)",
    )
    normalized: bool = Field(
        False, description="srau: each gate over the sum of both (paper Eq. 6)"
    )
    initialization: Literal["gpt2", "xavier"] = Field(
        "gpt2", description="of the decoder; xavier: 'Random init.'"
    )
    copy_layers: bool = Field(
        True, description="all decoder blocks begin as copies of the first, as in the code"
    )
    pretrained: bool = Field(
        True, description="whether the decoder begins with `weights`; false: random"
    )
    weights: str = Field(
        GPT2,
        description=(
            "hub:NAME@REVISION, a safetensors file relative to `inputs`, or language_model:NAME "
            "(trained first, params/language_models/NAME.yaml)"
        ),
    )
    dropout: Probability = Field(0.1, description="in the layers of encoder and decoder")
    feature_dropout: Probability = Field(0.1, description="on embedded vectors")
    cross_dropout: Probability = Field(0.2, description="on the weights of the cross-attention")
    aoa_dropout: Probability = Field(0.2, description="in attention on attention")

    _one_gate_is_open = reject_if(
        lambda model: model.normalized and model.tau >= 0.5,
        "normalized gates need a tau below 0.5, not {tau}: both could be zero",
    )

    @classmethod
    def example(cls) -> Self:
        """Two layers each side of width 16."""
        return cls(
            kind="visual_gpt",
            d_model=16,
            heads=2,
            d_feed_forward=24,
            decoder_layers=2,
            positions=70,
            encoder_layers=2,
            d_encoder_feed_forward=24,
            memory_slots=3,
            pretrained=False,
        )

    def pretrained_weights(self) -> str | None:
        """Where the weights come from that the decoder begins with."""
        return self.weights if self.pretrained else None


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
        "What the gates of VisualGPT let through, for captions of the first seed. Blue and higher: "
        "more of the image; the rest comes from the language model. The numbers behind the figures "
        "are in the CSVs beside them."
    )
    most_rows: ClassVar[int | None] = 1

    kind: Literal["gates"]
    count: PositiveInt = Field(10, description="captions that are shown beside their images")
    beam: PositiveInt = Field(3, description="beam size of the search")
    printed: dict[PartOfSpeech, float] = omitted_at_default(
        {}, description="part of speech -> printed mean visual score (Figure 10)"
    )


@FIGURES.register
class GateFunctionsFigure(ModelFigure):
    """Both gates over the value that they gate, as Eq. 5 and 6 have them (Figure 4)."""

    implementation: ClassVar[str] = "recap.papers.visualgpt.figures:draw_gate_functions"
    files: ClassVar[Mapping[str, str]] = {"gate_functions.png": "gate functions"}
    caption: ClassVar[str] = (
        "The self-resurrecting activation functions and their normalized form, computed by the "
        "layers of the model."
    )
    needs_images: ClassVar[bool] = False
    needs_models: ClassVar[bool] = False

    kind: Literal["gate_functions"]
    tau: float = Field(
        0.2, ge=0, lt=0.5, description="threshold; from 0.5 on both gates may be zero"
    )


@FIGURES.register
class PartsOfSpeechFigure(ModelFigure):
    """The parts of speech of captions and of a text (Figure 2)."""

    implementation: ClassVar[str] = "recap.papers.visualgpt.figures:draw_shares"
    files: ClassVar[Mapping[str, str]] = {
        "parts_of_speech.png": "parts of speech",
        "parts_of_speech.csv": "",
    }
    caption: ClassVar[str] = (
        "Share of each part of speech among the words of the training captions and of a text, of "
        "at most 10,000 sentences each, evenly spread. Beside the bars: by how much the share in "
        "captions is above that in the text. The numbers are in the CSV beside it."
    )
    needs_images: ClassVar[bool] = False
    needs_models: ClassVar[bool] = False

    kind: Literal["parts_of_speech"]
    text: str = Field(min_length=1, description="file of the text, below the profile's inputs")
    title: str = Field(min_length=1, description="what the figure calls the text")
    printed: dict[PartOfSpeech, float] = omitted_at_default(
        {},
        description=(
            "part of speech -> by how many percent the printed share in captions is above that in "
            "the text"
        ),
    )

    def texts(self) -> list[str]:
        """Return the file of the text."""
        return [self.text]
