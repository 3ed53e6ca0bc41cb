"""Grid features of a timm backbone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from recap.settings.base import Strict, neutral
from recap.settings.features import FEATURES, Activation, FeaturesConfig, TimmFeatures, Weights
from recap.settings.features.stored import StoredStream
from recap.settings.sizes import Cells, Edge

Precision = Annotated[
    Literal["float32", "bf16", "auto"],
    Field(description="auto: bf16 where the processor has units for it"),
]


class BoxPretraining(Strict):
    """How a backbone first learns to name what the boxes of the training pictures hold."""

    epochs: PositiveInt = 8
    learning_rate: PositiveFloat = Field(8e-3, description="peak of a one-cycle schedule")
    images_per_batch: PositiveInt = 32
    precision: Precision = "float32"


class WordTuning(Strict):
    """How a backbone's weights are first tuned to name words of the captions of the training pictures."""

    words: PositiveInt = Field(200, description="at most so many, the most frequent ones")
    least_images: PositiveInt = Field(20, description="whose captions must have a word")
    most_images: PositiveFloat = Field(0.5, lt=1, description="share of the images above which a word says too little")
    epochs: PositiveInt = Field(5, description="the weights of the best one by validation loss are kept")
    learning_rate: PositiveFloat = Field(1e-4, description="peak of a one-cycle schedule")
    images_per_batch: PositiveInt = 16
    precision: Precision = "float32"


@FEATURES.register
class GridFeatures(TimmFeatures):
    """Feature maps of a timm backbone, pooled to a square grid."""

    extractor: ClassVar[str] = "recap.features.grid:extract_grid"
    encoder: ClassVar[str] = "recap.share.photo_features:grid"

    kind: Literal["grid"]
    weights: Weights = Field(
        description="'pretrained' (hub), 'random', 'boxes' (trained first on the boxes of the data set's own training "
        "pictures), or a safetensors file relative to `inputs`"
    )
    pretraining: BoxPretraining | None = Field(None, description="for weights 'boxes'")
    word_tuning: WordTuning | None = neutral(
        None, description="the weights are first tuned on the captions of the data set's whole training split"
    )
    activation: Activation | None = Field(None, description="overrides the activation")
    out_index: int | None = Field(None, description="stage whose map is taken; default: the last, by forward_features")
    image_size: Edge = Field(224, description="edge to which pictures are resized, in pixels")
    grid: Cells = Field(7, description="cells per edge after adaptive average pooling")
    standardised: bool = neutral(
        False,
        description="each channel has mean 0 and deviation 1 over training pictures; with random weights always",
    )
    seed: int = Field(0, description="seed of random weights")
    batch_size: PositiveInt = Field(32, description="pictures encoded at a time")

    @model_validator(mode="after")
    def _pretraining_fits(self) -> GridFeatures:
        if (self.weights == "boxes") != (self.pretraining is not None):
            raise ValueError("`pretraining` goes with weights 'boxes', and with no others")
        if self.weights == "boxes" and self.word_tuning:
            raise ValueError("weights 'boxes' are not tuned on words as well; leave out `word_tuning`")
        return self

    def standardises(self) -> bool:
        """Return whether the channels are brought to one scale: random weights have no natural one."""
        return self.standardised or self.weights == "random"

    def trained_on(self) -> Literal["boxes", "captions"] | None:
        """Return what of the data set the weights are first trained on, if at all."""
        return "boxes" if self.weights == "boxes" else "captions" if self.word_tuning else None

    def vectors_per_picture(self) -> int:
        """Return the number of cells."""
        return self.grid**2

    def stored(self, named: Callable[[str], FeaturesConfig]) -> Mapping[str, StoredStream]:
        """Return the stream of the grid."""
        return {"grid": StoredStream(self.grid**2, self.vector_width)} if self.vector_width else {}
