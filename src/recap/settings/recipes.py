"""Settings of training and evaluation (``recipes/``),
how their jobs are computed, and what decides one of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from recap.core.log import log
from recap.settings.base import Precision, Strict, omitted_at_default, reject_if
from recap.settings.kinds import OneOf
from recap.settings.metrics import COCO, METRICS
from recap.settings.models import Model


class Execution(Strict):
    """How a job is computed, not what: key ``execution`` of a profile,
    and of a recipe as the defaults of its runs.

    None of these enters a spec or the identity of a run: a profile on another machine plans nothing
    because of them.
    """

    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="auto: a GPU if there is one"
    )
    threads: PositiveInt = Field(
        1, description="CPU threads of one training or evaluation job; sums differ with them"
    )
    tf32: bool = Field(
        True, description="a GPU's float32 products of trainings in TF32 (10 bits of mantissa)"
    )
    compile: Literal["auto"] | bool = Field(
        "auto", description="torch.compile of trainings; auto: on a GPU"
    )
    activation_checkpointing: bool = Field(
        False, description="compute activations again: less memory, more time"
    )
    trainings_per_gpu: PositiveInt = Field(
        1, description="jobs of a workflow that share a GPU; not of a cluster's"
    )
    checkpoint_minutes: PositiveFloat = Field(
        5.0, description="full state is saved at least this often"
    )
    extraction_parts: PositiveInt = Field(
        1, description="of each feature store; every part is a job with its own GPU"
    )

    def over(self, defaults: Execution) -> Execution:
        """Return ``defaults`` with what is set here in their place."""
        return Execution(
            **(defaults.model_dump(exclude_unset=True) | self.model_dump(exclude_unset=True))
        )


class ExecutionFile(Execution):
    """What ``--execution`` of a job takes: the keys of a profile, and more.

    The workflow adds the labels of the runs. A training that is cut short is for looking at a
    model: no profile can ask for it, because its result is not that of its spec, while its inputs,
    settings and source are the same.
    """

    max_steps: PositiveInt | None = Field(
        None,
        exclude=True,
        description=(
            "number of training steps, then stop; 100 by default where one batch is overfit"
        ),
    )
    overfit_one_batch: bool = Field(
        False, exclude=True, description="take the first batch at every step: loss nears 0"
    )
    labels: dict[str, str] = Field(
        {}, exclude=True, description="<setting>/<stage> -> what messages call its runs"
    )

    @property
    def is_short(self) -> bool:
        """Whether a training is cut short."""
        return self.max_steps is not None or self.overfit_one_batch


class _WithWarmup(Strict):
    warmup: NonNegativeInt = Field(0, description="steps of linear warm-up")


class ConstantSchedule(_WithWarmup):
    """The same rate throughout."""

    kind: Literal["constant"] = "constant"
    learning_rate: PositiveFloat


class NoamSchedule(Strict):
    """Vaswani et al. 2017, Eq. 3: rises for `warmup` steps, then falls as 1 / sqrt(step)."""

    kind: Literal["noam"] = "noam"
    factor: PositiveFloat = Field(
        1.0, description="scale; the peak is factor * (d_model * warmup) ** -0.5"
    )
    warmup: PositiveInt = Field(description="steps up to the peak")


class StepSchedule(_WithWarmup):
    """Multiplied by `factor` every `step_size` epochs, as torch's StepLR."""

    kind: Literal["step"] = "step"
    learning_rate: PositiveFloat = Field(description="rate of the first epochs")
    factor: PositiveFloat = Field(description="multiplier of each drop")
    step_size: PositiveInt = Field(description="epochs between drops")


class PlateauSchedule(_WithWarmup):
    """Times `factor` where the validation score stops rising, as torch's ReduceLROnPlateau."""

    kind: Literal["plateau"] = "plateau"
    learning_rate: PositiveFloat = Field(description="rate before the first drop")
    factor: PositiveFloat = Field(description="multiplier of each drop")
    patience: NonNegativeInt = Field(
        description="epochs without a better score that are tolerated; the next one drops"
    )


class StepThenPlateauSchedule(_WithWarmup):
    """As `step` in the first epochs; then as `plateau`, from its last rate."""

    kind: Literal["step_then_plateau"] = "step_then_plateau"
    learning_rate: PositiveFloat = Field(description="rate of the first epochs")
    factor: PositiveFloat = Field(description="multiplier of each drop of the first part")
    step_size: PositiveInt = Field(description="epochs between drops of the first part")
    plateau_from: PositiveInt = Field(description="epochs of the first part")
    plateau_factor: PositiveFloat = Field(description="multiplier of each drop of the second part")
    patience: NonNegativeInt = Field(
        description="its epochs without a better score that are tolerated"
    )


class CosineSchedule(_WithWarmup):
    """Falls as half a cosine from the first step to 0 after the last one of the stage."""

    kind: Literal["cosine"] = "cosine"
    learning_rate: PositiveFloat = Field(description="rate of the first steps after the warm-up")


class TableSchedule(_WithWarmup):
    """A rate for each stretch of epochs."""

    kind: Literal["table"] = "table"
    table: dict[int, PositiveFloat] = Field(
        description="epoch, counted from 0 -> learning rate from this epoch on"
    )

    _from_the_first_epoch = reject_if(
        lambda rates: 0 not in rates.table, "a table schedule needs a rate for epoch 0"
    )


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


def warn_of_short_training(name: str, schedule: Schedule, steps: int) -> None:
    """Warn if a training ends within its warm-up."""
    if steps < schedule.warmup:
        log.warning(
            f"{name}: the warm-up of {schedule.warmup} steps is longer than the training of "
            f"{steps}, so the learning rate reaches at most {steps / schedule.warmup:.2g} of its "
            "peak; lower `schedule.warmup` or train longer"
        )


class DecodingRules(Strict):
    """What beam search forbids; whatever is set is part of the scores' signature."""

    model_config = ConfigDict(frozen=True)

    no_repeated_ngram: int = Field(
        0, ge=0, description="no n-gram of this length twice in a caption; 0: no rule"
    )
    no_immediate_repeat: bool = Field(False, description="no word follows itself")
    bad_endings: tuple[str, ...] = Field((), description="words a caption may not end on")

    @property
    def text(self) -> str:
        """The rules in a word for signatures, empty where there are none."""
        words = []
        if self.no_repeated_ngram:
            words.append(f"ngram{self.no_repeated_ngram}")
        if self.no_immediate_repeat:
            words.append("repeat")
        if self.bad_endings:
            words.append(f"endings({','.join(sorted(self.bad_endings))})")
        return "+".join(words)


class DecodingSettings(Strict):
    """How captions are searched: one object for recipes, search, scores and `recap.load`."""

    model_config = ConfigDict(frozen=True)

    beam: PositiveInt = 3
    max_length: PositiveInt = 20
    length_penalty: float = Field(
        0.0, ge=0, description="scores are divided by length ** this; 0: plain sum"
    )
    rules: DecodingRules = DecodingRules()
    finished: Literal["stay", "set_aside"] = omitted_at_default(
        "stay",
        description=(
            "captions that have ended compete in the beam to its end, or are set aside and give "
            "their place to open ones (the older form)"
        ),
    )
    merge_repeats: bool = omitted_at_default(
        False, description="equal neighboring words are written once, as some releases do"
    )
    n_best: int = Field(
        0, ge=0, description="write the N best captions of each image, at most `beam`; 0: none"
    )
    batch_size: PositiveInt = 50

    _so_many_are_there = reject_if(
        lambda search: search.n_best > search.beam,
        "a beam of {beam} has no {n_best} best captions; widen it or lower n_best",
    )

    @property
    def signature(self) -> dict[str, str]:
        """Fields of a score's signature, for readers; programs read `metrics.json`."""
        fields = {
            "beam": f"{self.beam}",
            "len": f"{self.max_length}",
            "lp": f"{self.length_penalty:g}",
        }
        if self.rules.text:
            fields["rules"] = self.rules.text
        if self.finished != "stay":
            fields["finished"] = self.finished
        if self.merge_repeats:
            fields["repeats"] = "merged"
        return fields


class OutsideCaptions(Strict):
    """In place of `DecodingSettings` for captions from a file, whose search is unknown."""

    model_config = ConfigDict(frozen=True)

    captions_sha256: str = Field(min_length=8, description="of the scored captions, by image id")

    @property
    def signature(self) -> dict[str, str]:
        """Field of a score's signature: beginning of the captions' hash."""
        return {"captions": f"outside@{self.captions_sha256[:8]}"}


class Stage(Strict):
    """What cross-entropy and self-critical training share."""

    epochs: PositiveInt
    learning_rate: PositiveFloat | None = Field(
        None, exclude=True, description="short for a constant `schedule`"
    )
    # Never None: `_one_schedule` fills it, or refuses the stage.
    schedule: Schedule = Field(
        None, validate_default=True, description="learning rate over steps and epochs"
    )
    images_per_batch: PositiveInt = Field(
        10, description="images per step, each with its captions or samples"
    )
    steps_per_epoch: PositiveInt | None = omitted_at_default(
        None, description="an epoch ends after so many batches; default: when all images were seen"
    )
    optimizer: Literal["adam", "adamw", "radam"] = "adam"
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: PositiveFloat = 1e-9
    weight_decay: float = Field(0.0, ge=0)
    clip_norm: float | None = Field(None, gt=0, description="clip the gradient's global norm")
    clip_value: float | None = Field(0.1, gt=0, description="clip each gradient entry")
    patience: PositiveInt | None = Field(
        None, description="stop after so many validations without a better CIDEr"
    )
    validate_every: PositiveInt = omitted_at_default(
        1, description="epochs between two validations; the last epoch has one"
    )
    validation_beam: PositiveInt = Field(
        1, description="beam of the validation decoding after each epoch"
    )
    precision: Precision = "float32"
    weight_average: float | None = omitted_at_default(
        None,
        gt=0,
        lt=1,
        description=(
            "decay per step of a moving average of the weights, which is validated and kept"
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _one_schedule(cls, values: Any) -> Any:
        """Take a learning rate for a constant schedule."""
        if not isinstance(values, dict):
            return values
        rate = values.get("learning_rate")
        if (rate is None) == (values.get("schedule") is None):
            raise ValueError("give one of `learning_rate` and `schedule`")
        if rate is None:
            return values
        return {**values, "schedule": {"kind": "constant", "learning_rate": rate}}


class ScheduledSampling(Strict):
    """How often a caption's word is replaced by the model's own (Bengio et al. 2015)."""

    start_epoch: int = Field(
        0, ge=0, description="epoch, counted from 0, from which the probability may rise"
    )
    interval: PositiveInt = Field(5, description="epochs between rises")
    increment: float = Field(0.05, gt=0, le=1, description="what a rise adds to the probability")
    max_prob: float = Field(0.5, gt=0, le=1, description="the probability's limit")

    def rate(self, epoch: int) -> float:
        """Return the probability in an epoch from 0, which rises every `interval` epochs."""
        return min(
            self.max_prob, self.increment * max(0, (epoch - self.start_epoch) // self.interval)
        )


class CrossEntropy(Stage):
    """Teacher forcing on the reference captions."""

    label_smoothing: float = Field(0.0, ge=0, lt=1)
    scheduled_sampling: ScheduledSampling | None = Field(
        None, description="null: every word is the caption's own"
    )
    truncate_to_words: bool = omitted_at_default(
        False,
        description=(
            "byte pairs: cut the pieces of all captions of a batch at the most words of any (a "
            "fault of some released code, by which long captions lose their last pieces and <eos>)"
        ),
    )


class SelfCritical(Stage):
    """REINFORCE on the CIDEr-D of sampled captions (self-critical sequence training)."""

    sampling: Literal["multinomial", "beam"] = "multinomial"
    samples: int = Field(5, ge=2, description="captions drawn per image")
    baseline: Literal["mean_of_others", "mean", "greedy", "mean_of_beam"] = Field(
        "mean_of_others",
        description="mean: of all captions of the image, the own one among them; "
        "mean_of_beam: of as many captions as samples, found by beam search",
    )
    document: Literal["image", "caption"] = Field(
        "image", description="what n-grams' document frequencies count"
    )
    reward_end_token: bool = Field(True, description="count the end token as a word in the reward")
    units: Literal["words", "pieces"] = omitted_at_default(
        "words",
        description="byte pairs: the reward counts the words that they spell, or the pieces",
    )
    loss_over: Literal["tokens", "positions"] = omitted_at_default(
        "tokens",
        description=(
            "the policy loss is the mean over the tokens of all captions, or over as many "
            "positions of each as the longest may have, those after its end counted as 0"
        ),
    )
    cross_entropy: float = omitted_at_default(
        0.0, ge=0, description="weight of the references' cross-entropy in the policy loss"
    )
    dropout: bool = omitted_at_default(
        False,
        description=(
            "encode images and score captions under the model's dropout, much as released code "
            "does; captions are drawn from the images so encoded without more of it"
        ),
    )


class Evaluation(DecodingSettings):
    """How test captions are decoded and scored."""

    split: Literal["val", "test"] = "test"
    metrics: list[Annotated[str, OneOf(METRICS.names)]] = Field(
        list(COCO), description="SPICE: where it is installed"
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
    processes: PositiveInt = omitted_at_default(
        1, description="that train together, on a GPU each, and share `images_per_batch`"
    )
    # Never in a dump: it decides nothing.
    execution: Execution = Field(
        Execution(), exclude=True, description="of its jobs, unless the profile says"
    )


class _Run(Strict):
    """What decides one training."""

    dataset: str = Field(description="name of the data set")
    subset: str = Field(description="name of the subset of its training captions")
    features: str = Field(description="name of the features")
    model: str = Field(description="name of the model")
    recipe: str = Field(description="name of the recipe")
    seed: int = Field(description="of first weights, order, dropout and samples")
    model_settings: Model = Field(description="keys of the model's file")
    processes: PositiveInt = omitted_at_default(
        1, description="processes that train together, started by torchrun"
    )


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
