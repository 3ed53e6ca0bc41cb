"""Settings of language models that are trained on texts without pictures: ``params/language_models/``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from recap.settings.base import Strict
from recap.settings.models.base import Probability
from recap.settings.outside import NamesFiles, OutsideFile
from recap.settings.sizes import Layers, Width

LANGUAGE_MODEL = "language_model:"  # begins the name of one where a model's settings name weights
SHARED_SIZES = ("d_model", "heads", "d_feed_forward")  # those that a captioner must have from its language model


class SceneTexts(Strict):
    """Captions of invented scenes, from the grammar of the built-in data set; no picture is rendered."""

    count: PositiveInt = Field(description="number of scenes, five captions each")
    max_per_kind: int = Field(3, ge=1, le=5, description="maximum number of objects of one kind in a scene")
    seed: int = Field(1_000_000, description="of scenes and captions; not that of a data set")


class LanguageModel(NamesFiles):
    """A small GPT-2 and its training; what stands in for GPT-2 where that is too large."""

    texts: list[OutsideFile] = Field(
        default_factory=list,
        description="files relative to `inputs`: .txt (a text per line), .tsv (first column), either also as .gz; "
        ".json or .zip of COCO's captions_*.json",
    )
    scenes: SceneTexts | None = None
    validation_texts: PositiveInt = Field(1000, description="texts kept for the perplexity that chooses the epoch")
    d_model: Width = 256
    heads: Width = 8
    d_feed_forward: Width = 1024
    layers: Layers = 6
    positions: Width = Field(64, description="learned positions: the longest text in tokens, with <bos>")
    dropout: Probability = 0.1
    epochs: PositiveInt = 3
    learning_rate: PositiveFloat = Field(
        1e-3, description="of the first steps after the warm-up; falls as half a cosine"
    )
    warmup: int = Field(200, ge=0, description="steps of linear warm-up")
    texts_per_batch: PositiveInt = 64
    weight_decay: float = Field(0.01, ge=0)
    clip_norm: PositiveFloat = 1.0
    precision: Literal["float32", "bf16"] = "float32"
    seed: int = Field(0, description="of weights, order and dropout")

    @model_validator(mode="after")
    def _has_texts_and_fitting_sizes(self) -> Self:
        if not self.texts and self.scenes is None:
            raise ValueError("the key 'texts' is missing, and so is 'scenes'; give one of them")
        if self.d_model % self.heads:
            raise ValueError(f"d_model {self.d_model} is not divisible by {self.heads} heads")
        return self
