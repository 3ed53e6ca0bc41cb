"""What decides one job of a run: a training stage, or an evaluation. Every command loads it, so `specs` is apart."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from recap.settings.base import Strict, neutral
from recap.settings.models import Model
from recap.settings.recipes import CrossEntropy, Evaluation, SelfCritical


class _Run(Strict):
    dataset: str = Field(description="name of the data set")
    subset: str = Field(description="name of the subset of its training captions")
    features: str = Field(description="name of the features")
    model: str = Field(description="name of the model")
    recipe: str = Field(description="name of the recipe")
    seed: int = Field(description="of first weights, order, dropout and samples")
    model_settings: Model = Field(description="keys of the model's file")
    processes: PositiveInt = neutral(1, description="processes that train together, started by torchrun")


class CrossEntropyRun(_Run):
    """The first stage."""

    stage: Literal["xe"]
    stage_settings: CrossEntropy = Field(description="key `xe` of the recipe's file")


class SelfCriticalRun(_Run):
    """The second stage."""

    stage: Literal["scst"]
    stage_settings: SelfCritical = Field(description="key `scst` of the recipe's file")


RunSpec = Annotated[CrossEntropyRun | SelfCriticalRun, Field(discriminator="stage")]


class EvaluationSpec(Strict):
    """How a run's captions are decoded and scored."""

    evaluation: Evaluation = Field(description="key `evaluation` of the recipe's file")
