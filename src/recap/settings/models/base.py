"""What the settings of every kind of model share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from recap.core.plugins import Registry
from recap.settings.base import Strict
from recap.settings.kinds import Kinds
from recap.settings.sizes import Width

Probability = Annotated[float, Field(ge=0, lt=1)]


MODELS = Kinds("recap.papers")
# Kind -> its paper's `recap.models.released.Release`, or a sentence that says why there is none.
RELEASED = Registry("kind of model with released checkpoints", {})

# Kind -> its paper's `recap.models.explained.Explained`; other kinds show the weights of their `attention_modules`.
EXPLAINED = Registry("kind of model with an explanation", {})


class ModelConfig(Strict, ABC):
    """Settings of a kind of model; `MODELS.register` makes a subclass with `kind: Literal[NAME]` known as NAME.

    Attributes:
        implementation: where the model is, "package.module:Class"; imported when the model is built.
        variants: other settings than the example's that the contract tests run as well, as changes to it.
        example_streams: width of the vectors of each stream that the contract tests feed it.
    """

    implementation: ClassVar[str]
    variants: ClassVar[Sequence[Mapping[str, Any]]] = ()
    example_streams: ClassVar[Mapping[str, int]] = {"grid": 7}

    kind: str
    expected_parameters: float | None = Field(
        None,
        exclude=True,  # a note for the test that counts: no part of what is trained
        description="millions of parameters with 2048-d features and 9,488 ids, to the digits given; a test counts",
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
        """Whether the number of an image's vectors has a meaning, so that masked ones may not be appended."""
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


class WithHeads(ModelConfig):
    """A width that heads divide among themselves; the builders' rule, checked before the first job."""

    model_config = ConfigDict(validate_default=True)

    d_model: Width
    heads: Width

    @field_validator("d_model", "heads")
    @classmethod
    def _divisible(cls, value: int, info: ValidationInfo) -> int:
        sizes = {**info.data, str(info.field_name): value}  # whichever of the two comes last sees both
        if {"d_model", "heads"} <= sizes.keys() and sizes["d_model"] % sizes["heads"]:
            raise ValueError(f"d_model {sizes['d_model']} is not divisible by {sizes['heads']} heads")
        return value

    @property
    def noam_width(self) -> int:
        """The model's width."""
        return self.d_model


class WithPaddedVectors(WithHeads):
    """Models that read the first vectors of an image and may fill these up with zeros."""

    max_vectors: Width | None = Field(None, description="vectors of an image that are read; null: all")
    padded_vectors: Literal["masked", "attended"] = Field(
        "masked", description="attended: images are filled up to max_vectors with zeros, which nothing hides (released)"
    )

    @model_validator(mode="after")
    def _limited(self) -> Self:
        if self.padded_vectors == "attended" and self.max_vectors is None:
            raise ValueError("padded_vectors: attended needs max_vectors, the number to which images are padded")
        return self

    @property
    def padded_to(self) -> int | None:
        """The number of vectors up to which an image is filled with zeros that no mask hides; None: it is not."""
        return self.max_vectors if self.padded_vectors == "attended" else None
