"""What the settings of every kind of model share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from recap.core.plugins import Registry
from recap.settings.base import Strict
from recap.settings.kinds import Kinds

Probability = Annotated[float, Field(ge=0, lt=1)]


MODELS = Kinds("recap.papers")
# Kind -> function that gives the tensors of its paper's released checkpoints our names.
RELEASED = Registry("kind of model with released checkpoints", {})


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

    @property
    def arguments(self) -> dict[str, Any]:
        """The keys of this kind, as the keyword arguments of its model."""
        return {name: getattr(self, name) for name in type(self).model_fields if name not in ModelConfig.model_fields}

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

    @field_validator("d_model", "heads", check_fields=False)
    @classmethod
    def _divisible(cls, value: int, info: ValidationInfo) -> int:
        sizes = {**info.data, str(info.field_name): value}  # whichever of the two comes last sees both
        if {"d_model", "heads"} <= sizes.keys() and sizes["d_model"] % sizes["heads"]:
            raise ValueError(f"d_model {sizes['d_model']} is not divisible by {sizes['heads']} heads")
        return value
