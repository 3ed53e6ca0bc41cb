"""Settings of models, each kind in its paper's folder,
and of the small language models that some begin with.

A kind is a `ModelConfig` registered with `MODELS`; a plug-in (`recap.settings.kinds`) adds kinds in
the same way. The model itself is imported only when one is built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, PositiveFloat, PositiveInt

from recap.settings.base import (
    Layers,
    NamesFiles,
    OutsideFile,
    Probability,
    Strict,
    Width,
    reject_if,
)
from recap.settings.kinds import Registry

MODELS = Registry("kind of model", package="recap.papers")
# Kind -> its paper's `recap.runs.released.Release`, or a sentence that says why there is none.
RELEASED = Registry("kind of model with released checkpoints", package="recap.papers")
# Kind -> the function that says what else is known of a caption beside its attention
# (`recap.models.explained`).
EXPLAINED = Registry("kind of model with an explanation", package="recap.papers")


class ModelConfig(Strict, ABC):
    """Settings of a kind of model; `MODELS.register` makes a subclass
    with `kind: Literal[NAME]` known as NAME."""

    #: where the model is, "package.module:Class"; imported when the model is built
    implementation: ClassVar[str]
    #: other settings than the example's that the contract tests run as well, as changes to it
    variants: ClassVar[Sequence[Mapping[str, Any]]] = ()
    #: width of the vectors of each stream that the contract tests feed it
    example_streams: ClassVar[Mapping[str, int]] = {"grid": 7}

    kind: str
    expected_parameters: float | None = Field(
        None,
        exclude=True,  # a note for the test that counts: no part of what is trained
        description=(
            "millions of parameters with 2048-d features and 9,488 ids, to the digits given; a "
            "test counts"
        ),
    )

    @classmethod
    @abstractmethod
    def example(cls) -> Self:
        """Return tiny settings, which the contract tests run."""

    @property
    @abstractmethod
    def noam_width(self) -> int:
        """D in the Noam schedule's factor D^-0.5."""

    @property
    def fixed_vectors(self) -> bool:
        """Whether the number of vectors means something: masked ones may not be appended."""
        return False

    @property
    def vector_limit(self) -> int | None:
        """How many vectors of an image are read at most, the first ones; None: all."""
        return getattr(self, "max_vectors", None)

    def pretrained_weights(self) -> str | None:
        """Return where the weights are that the model begins with; None: all are random.

        `hub:NAME@REVISION`, `language_model:NAME` or a file relative to `inputs`.
        """
        return None

    @property
    def unused_parameters(self) -> Sequence[str]:
        """Parts of the names of parameters that these settings leave without a gradient."""
        return ()


Model = Annotated[ModelConfig, MODELS]


def divisible() -> Any:
    """Return a validator: the heads divide the width among themselves, as the builders want it."""
    return reject_if(
        lambda model: model.d_model % model.heads,
        "d_model {d_model} is not divisible by {heads} heads",
    )


class WithHeads(ModelConfig):
    """A width that heads divide among themselves."""

    # what a subclass checks of a key holds for its default, too
    model_config = ConfigDict(validate_default=True)

    d_model: Width
    heads: Width

    _divisible = divisible()

    @property
    def noam_width(self) -> int:
        return self.d_model


class WithPaddedVectors(WithHeads):
    """Models that read the first vectors of an image and may fill these up with zeros."""

    max_vectors: Width | None = Field(
        None, description="vectors of an image that are read; null: all"
    )
    padded_vectors: Literal["masked", "attended"] = Field(
        "masked",
        description=(
            "attended: images are filled up to max_vectors with zeros, which nothing hides "
            "(released)"
        ),
    )

    _limited = reject_if(
        lambda model: model.padded_vectors == "attended" and model.max_vectors is None,
        "padded_vectors: attended needs max_vectors, the number to which images are padded",
    )

    @property
    def padded_to(self) -> int | None:
        """The number of vectors up to which an image is filled with zeros that no mask hides.

        None: it is not.
        """
        return self.max_vectors if self.padded_vectors == "attended" else None


LANGUAGE_MODEL = "language_model:"  # begins the name of one where a model's settings name weights
# those that a captioner must have from its language model
SHARED_SIZES = ("d_model", "heads", "d_feed_forward")


class SceneTexts(Strict):
    """Captions of invented scenes, from the grammar of the built-in data set.

    No picture is rendered.
    """

    count: PositiveInt = Field(description="number of scenes, five captions each")
    max_per_kind: int = Field(
        3, ge=1, le=5, description="maximum number of objects of one kind in a scene"
    )
    seed: int = Field(1_000_000, description="of scenes and captions; not that of a data set")


class LanguageModel(NamesFiles):
    """A small GPT-2 and its training; what stands in for GPT-2 where that is too large."""

    texts: list[OutsideFile] = Field(
        [],
        description=(
            "files relative to `inputs`: .txt (a text per line), .tsv (first column), either also "
            "as .gz; .json or .zip of COCO's captions_*.json"
        ),
    )
    scenes: SceneTexts | None = None
    validation_texts: PositiveInt = Field(
        1000, description="texts kept for the perplexity that chooses the epoch"
    )
    d_model: Width = 256
    heads: Width = 8
    d_feed_forward: Width = 1024
    layers: Layers = 6
    positions: Width = Field(
        64, description="learned positions: the longest text in tokens, with <bos>"
    )
    dropout: Probability = 0.1
    epochs: PositiveInt = 3
    learning_rate: PositiveFloat = Field(
        1e-3, description="after the warm-up; falls as half a cosine"
    )
    warmup: int = Field(200, ge=0, description="steps of linear warm-up")
    texts_per_batch: PositiveInt = 64
    weight_decay: float = Field(0.01, ge=0)
    clip_norm: PositiveFloat = 1.0
    precision: Literal["float32", "bf16"] = "float32"
    seed: int = Field(0, description="of weights, order and dropout")

    _divisible = divisible()
    _has_texts = reject_if(
        lambda model: not model.texts and model.scenes is None,
        "the key 'texts' is missing, and so is 'scenes'; give one of them",
    )
