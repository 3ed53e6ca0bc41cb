"""Learning rates over steps and epochs; every kind of schedule owns its numbers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, field_validator

from recap.settings.base import Strict


class _WithWarmup(Strict):
    warmup: NonNegativeInt = Field(0, description="steps of linear warm-up")


class ConstantSchedule(_WithWarmup):
    """The same rate throughout."""

    kind: Literal["constant"] = "constant"
    learning_rate: PositiveFloat


class NoamSchedule(Strict):
    """Vaswani et al. 2017, Eq. 3: rises for `warmup` steps, then falls with the root of the step."""

    kind: Literal["noam"] = "noam"
    factor: PositiveFloat = Field(1.0, description="scale; the peak is factor * (d_model * warmup) ** -0.5")
    warmup: PositiveInt = Field(description="steps up to the peak")


class StepSchedule(_WithWarmup):
    """Multiplied by `factor` every `step_size` epochs, as torch's StepLR."""

    kind: Literal["step"] = "step"
    learning_rate: PositiveFloat = Field(description="rate of the first epochs")
    factor: PositiveFloat = Field(description="multiplier of each drop")
    step_size: PositiveInt = Field(description="epochs between drops")


class PlateauSchedule(_WithWarmup):
    """Multiplied by `factor` where the validation score stops rising, as torch's ReduceLROnPlateau."""

    kind: Literal["plateau"] = "plateau"
    learning_rate: PositiveFloat = Field(description="rate before the first drop")
    factor: PositiveFloat = Field(description="multiplier of each drop")
    patience: NonNegativeInt = Field(description="epochs without a better score that are tolerated; the next one drops")


class StepThenPlateauSchedule(_WithWarmup):
    """As `step` in the first epochs; then its last rate, multiplied where the validation score stops rising."""

    kind: Literal["step_then_plateau"] = "step_then_plateau"
    learning_rate: PositiveFloat = Field(description="rate of the first epochs")
    factor: PositiveFloat = Field(description="multiplier of each drop of the first part")
    step_size: PositiveInt = Field(description="epochs between drops of the first part")
    plateau_from: PositiveInt = Field(description="epochs of the first part")
    plateau_factor: PositiveFloat = Field(description="multiplier of each drop of the second part")
    patience: NonNegativeInt = Field(description="its epochs without a better score that are tolerated")


class CosineSchedule(_WithWarmup):
    """Falls as half a cosine from the first step to 0 after the last one of the stage."""

    kind: Literal["cosine"] = "cosine"
    learning_rate: PositiveFloat = Field(description="rate of the first steps after the warm-up")


class TableSchedule(_WithWarmup):
    """A rate for each stretch of epochs."""

    kind: Literal["table"] = "table"
    table: dict[int, PositiveFloat] = Field(description="epoch, counted from 0 -> learning rate from this epoch on")

    @field_validator("table")
    @classmethod
    def _from_the_first_epoch(cls, table: dict[int, float]) -> dict[int, float]:
        if 0 not in table:
            raise ValueError("a table schedule needs a rate for epoch 0")
        return table


Schedule = Annotated[
    ConstantSchedule
    | NoamSchedule
    | StepSchedule
    | PlateauSchedule
    | StepThenPlateauSchedule
    | CosineSchedule
    | TableSchedule,
    Field(discriminator="kind"),
]
# Schedules whose rates are multiples of one number, which a stage may also give as its `learning_rate`.
WITH_ONE_RATE = ("constant", "step", "plateau", "step_then_plateau", "cosine")
