"""Settings of training and evaluation: folders ``recipes/``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

from recap.settings.base import Strict, neutral
from recap.settings.decoding import DecodingSettings
from recap.settings.execution import Execution, refuse_moved
from recap.settings.metrics import COCO, METRICS
from recap.settings.names import OneOf
from recap.settings.schedules import WITH_ONE_RATE, Schedule


class Stage(Strict):
    """What cross-entropy and self-critical training share."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["schedule"]}, {"required": ["learning_rate"]}]}
    )

    epochs: PositiveInt
    learning_rate: PositiveFloat | None = Field(
        None, exclude=True, description="short for schedule.learning_rate; alone: a constant schedule"
    )
    # Never None: `_one_schedule` refuses a stage without a rate before the default is looked at.
    schedule: Schedule = Field(None, validate_default=True, description="learning rate over steps and epochs")
    images_per_batch: PositiveInt = Field(10, description="images per step, each with its captions or samples")
    optimizer: Literal["adam", "adamw", "radam"] = "adam"
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: PositiveFloat = 1e-9
    weight_decay: float = Field(0.0, ge=0)
    clip_norm: float | None = Field(None, gt=0, description="clip the gradient's global norm")
    clip_value: float | None = Field(0.1, gt=0, description="clip each gradient entry")
    patience: PositiveInt | None = Field(
        None, description="stop after this number of validations without a better CIDEr"
    )
    validate_every: PositiveInt = neutral(
        1, description="epochs between two validations; the last epoch has one. Few captions make short epochs"
    )
    validation_beam: PositiveInt = Field(1, description="beam of the validation decoding after each epoch")
    precision: Literal["float32", "bf16", "auto"] = Field(
        "float32", description="auto: bf16 where the processor has units for it"
    )
    weight_average: float | None = neutral(
        None,
        gt=0,
        lt=1,
        description="decay per step of an exponential moving average of the weights, which is validated and kept",
    )

    @model_validator(mode="before")
    @classmethod
    def _nothing_moved(cls, values: Any) -> Any:
        return refuse_moved(values)

    @model_validator(mode="before")
    @classmethod
    def _one_schedule(cls, values: Any) -> Any:
        """Move a learning rate beside the schedule into it; refuse it where it would have no effect."""
        if not isinstance(values, dict):
            return values
        rate, schedule = values.get("learning_rate"), values.get("schedule")
        if schedule is None and rate is None:
            raise ValueError("there is no learning rate; give `learning_rate`, or a `schedule`")
        if rate is None or not isinstance(schedule, dict | None):
            return values
        schedule = {"kind": "constant", **(schedule or {})}
        if schedule["kind"] not in WITH_ONE_RATE:
            raise ValueError(f"learning_rate has no effect under a {schedule['kind']} schedule; remove it")
        if schedule.get("learning_rate", rate) != rate:
            raise ValueError("learning_rate and schedule.learning_rate differ; keep one of them")
        return {**values, "schedule": {**schedule, "learning_rate": rate}}


class ScheduledSampling(Strict):
    """How often a word of the caption is replaced by one the model would say (Bengio et al. 2015)."""

    start_epoch: int = Field(0, ge=0, description="epoch, counted from 0, from which the probability may rise")
    interval: PositiveInt = Field(5, description="epochs between rises")
    increment: float = Field(0.05, gt=0, le=1, description="what a rise adds to the probability")
    max_prob: float = Field(0.5, gt=0, le=1, description="the probability's limit")

    def rate(self, epoch: int) -> float:
        """Return the probability in an epoch counted from 0: it rises every `interval` epochs after `start_epoch`."""
        return min(self.max_prob, self.increment * max(0, (epoch - self.start_epoch) // self.interval))


class CrossEntropy(Stage):
    """Teacher forcing on the reference captions."""

    label_smoothing: float = Field(0.0, ge=0, lt=1)
    scheduled_sampling: ScheduledSampling | None = Field(None, description="null: every word is the caption's own")
    truncate_to_words: bool = neutral(
        False,
        description="byte pairs: cut the pieces of all captions of a batch at the most words of any (a fault of "
        "some released code, by which long captions lose their last pieces and <eos>)",
    )


class SelfCritical(Stage):
    """REINFORCE on the CIDEr-D of sampled captions (self-critical sequence training)."""

    sampling: Literal["multinomial", "beam"] = "multinomial"
    samples: int = Field(5, ge=2, description="captions drawn per image")
    top_p: float = Field(
        1.0,
        gt=0,
        le=1,
        description="multinomial: the policy is the likeliest words of this total share, of which is drawn",
    )
    baseline: Literal["mean_of_others", "mean", "greedy", "mean_of_beam"] = Field(
        "mean_of_others",
        description="mean: of all captions of the image, the own one among them; "
        "mean_of_beam: of as many captions as samples, found by beam search",
    )
    cider_d: float = Field(1.0, ge=0, description="weight of CIDEr-D in the reward")
    bleu4: float = Field(0.0, ge=0, description="weight of the caption's BLEU-4 in the reward")
    document: Literal["image", "caption"] = Field("image", description="what n-grams' document frequencies count")
    reward_end_token: bool = Field(True, description="count the end token as a word in the reward")
    loss_over: Literal["tokens", "positions"] = neutral(
        "tokens",
        description="the policy loss is the mean over the tokens of all captions, or over as many positions of each as "
        "the longest may have, those after its end counted as 0",
    )
    cross_entropy: float = neutral(
        0.0, ge=0, description="weight of the references' cross-entropy, which is added to the policy loss"
    )
    dropout: bool = neutral(
        False,
        description="encode images and score captions under the model's dropout, much as released code does; captions "
        "are drawn from the images so encoded without more of it",
    )

    @model_validator(mode="after")
    def _rewarded(self) -> SelfCritical:
        if self.cider_d + self.bleu4 == 0:
            raise ValueError("the reward has no part: give cider_d or bleu4 a weight above 0")
        if self.top_p < 1 and self.sampling == "beam":
            raise ValueError("top_p goes with multinomial sampling")
        return self


class Evaluation(DecodingSettings):
    """How test captions are decoded and scored."""

    split: Literal["val", "test"] = "test"
    metrics: list[Annotated[str, OneOf(METRICS.names)]] = Field(
        list(COCO), description="SPICE runs where its models are installed"
    )

    @property
    def decoding(self) -> DecodingSettings:
        """How they are decoded, without how they are scored."""
        return DecodingSettings(**self.model_dump(include=set(DecodingSettings.model_fields)))


class Recipe(Strict):
    """Training and evaluation of one row; ``scst: null`` leaves the second stage out."""

    xe: CrossEntropy
    scst: SelfCritical | None = None
    evaluation: Evaluation = Evaluation()
    processes: PositiveInt = neutral(
        1, description="processes that train together, on a GPU each; each takes its share of `images_per_batch`"
    )
    # Never in a dump: it decides nothing.
    execution: Execution = Field(
        Execution(), exclude=True, description="how its jobs are computed, unless the profile says otherwise"
    )
