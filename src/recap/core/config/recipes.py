"""Settings of training and evaluation: ``params/recipes/``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from recap.core.config.base import Strict


class Schedule(Strict):
    """Learning rate over steps or epochs."""

    kind: Literal["constant", "noam", "step", "plateau", "table"] = "constant"
    factor: PositiveFloat = Field(1.0, description="noam: scale; step and plateau: multiplier at each drop")
    warmup: int = Field(0, ge=0, description="steps of linear warm-up (noam: the paper's warm-up)")
    every: PositiveInt = Field(3, description="step: epochs between drops; plateau: epochs without gain before one")
    table: dict[int, PositiveFloat] = Field(default_factory=dict, description="table: learning rate from this epoch on")

    @model_validator(mode="after")
    def _complete(self) -> Schedule:
        if self.kind == "table" and 0 not in self.table:
            raise ValueError("a table schedule needs a rate for epoch 0")
        if self.kind == "noam" and self.warmup == 0:
            raise ValueError("a noam schedule needs warmup >= 1")
        return self


class Stage(Strict):
    """What cross-entropy and self-critical training share."""

    epochs: PositiveInt
    learning_rate: PositiveFloat = Field(description="base rate (noam: ignored, see schedule.factor)")
    schedule: Schedule = Schedule()
    images_per_batch: PositiveInt = Field(10, description="images a step; each brings its captions or samples")
    optimizer: Literal["adam", "adamw", "radam"] = "adam"
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: PositiveFloat = 1e-9
    weight_decay: float = Field(0.0, ge=0)
    clip_norm: float | None = Field(None, gt=0, description="clip the gradient's global norm")
    clip_value: float | None = Field(0.1, gt=0, description="clip each gradient entry")
    patience: PositiveInt | None = Field(None, description="stop after so many epochs without a better CIDEr")
    validation_beam: PositiveInt = Field(1, description="beam of the validation decoding after each epoch")
    precision: Literal["float32", "bf16"] = "float32"
    compile: bool = Field(False, description="torch.compile the model (worth it on a GPU)")
    checkpoint_minutes: PositiveFloat = Field(5.0, description="full state is saved at least this often")


class ScheduledSampling(Strict):
    """How often a word of the caption is replaced by one the model would say (Bengio et al. 2015)."""

    start: int = Field(0, ge=0, description="epoch, counted from 0, from which the rate may rise")
    every: PositiveInt = Field(5, description="epochs between rises")
    rise: float = Field(0.05, gt=0, le=1, description="what a rise adds to the rate")
    most: float = Field(0.5, gt=0, le=1, description="the rate's limit")

    def rate(self, epoch: int) -> float:
        """Return the rate of an epoch counted from 0: rise * floor((epoch - start) / every), at most `most`."""
        return min(self.most, self.rise * max(0, (epoch - self.start) // self.every))


class CrossEntropy(Stage):
    """Teacher forcing on the reference captions."""

    label_smoothing: float = Field(0.0, ge=0, lt=1)
    scheduled_sampling: ScheduledSampling | None = Field(None, description="null: every word is the caption's own")


class SelfCritical(Stage):
    """REINFORCE on the CIDEr-D of sampled captions (self-critical sequence training)."""

    sampling: Literal["multinomial", "beam"] = "multinomial"
    samples: int = Field(5, ge=2, description="captions drawn per image")
    baseline: Literal["mean_of_others", "greedy"] = "mean_of_others"
    reward_end_token: bool = Field(True, description="count the end token as a word in CIDEr-D")


class Evaluation(Strict):
    """How test captions are decoded and scored."""

    beam: PositiveInt = 3
    max_length: PositiveInt = 20
    length_penalty: float = Field(0.0, ge=0, description="scores are divided by length ** this; 0: plain sum")
    split: Literal["val", "test"] = "test"
    batch_size: PositiveInt = 50
    metrics: list[Literal["BLEU", "METEOR", "ROUGE-L", "CIDEr", "SPICE"]] = Field(
        ["BLEU", "METEOR", "ROUGE-L", "CIDEr", "SPICE"], description="SPICE runs where its models are installed"
    )


class Recipe(Strict):
    """Training and evaluation of one row; ``scst: null`` leaves the second stage out."""

    xe: CrossEntropy
    scst: SelfCritical | None = None
    evaluation: Evaluation = Evaluation()
