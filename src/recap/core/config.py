"""The typed config: the only description of what a YAML in ``params/`` may say.

A profile (``params/demo.yaml``) names tables; a table's rows name a dataset, a subset, features, a model and a recipe;
each of those is a file of its own, where ``base: other`` means "as other, except".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, field_validator, model_validator


class Strict(BaseModel):
    """Refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


# ---------------------------------------------------------------------------------------------- data


class VocabularyRule(Strict):
    """Which words get an id of their own (COCO's rule: lower case, count >= 6 over all splits, 16 words)."""

    min_count: PositiveInt = Field(6, description="words seen less often become <unk>")
    splits: Literal["train", "all"] = Field("train", description="where words are counted; COCO's 9,487 need 'all'")
    max_length: PositiveInt = Field(16, description="captions are cut to this many words in training")


class KarpathyDataset(Strict):
    """A data set in Karpathy's JSON form (dataset_coco.json, dataset_flickr8k.json, dataset_flickr30k.json)."""

    kind: Literal["karpathy"]
    annotations: str = Field(description="the JSON, or a zip that holds it; relative to the profile's `inputs`")
    images: list[str] = Field(description="folders or zips with the pictures; relative to the profile's `inputs`")
    merge_restval: bool = Field(True, description="count COCO's 'restval' images as training images")
    vocabulary: VocabularyRule = VocabularyRule()


class ScenesDataset(Strict):
    """The built-in data set: rendered scenes with captions from a seeded grammar."""

    kind: Literal["scenes"]
    train: PositiveInt = Field(2000, description="number of training pictures")
    val: PositiveInt = Field(200, description="number of validation pictures")
    test: PositiveInt = Field(200, description="number of test pictures")
    size: int = Field(112, ge=32, description="edge of a picture in pixels")
    seed: int = Field(0, description="seed of pictures and captions")
    vocabulary: VocabularyRule = VocabularyRule(min_count=2, splits="train", max_length=20)


Dataset = Annotated[KarpathyDataset | ScenesDataset, Field(discriminator="kind")]


class Subset(Strict):
    """How much of the training split is used; ``full`` is {fraction: 1}."""

    fraction: float = Field(1.0, gt=0, le=1, description="share of the training pairs or images")
    unit: Literal["pair", "image"] = Field("pair", description="draw single captions, or images with all captions")


# ---------------------------------------------------------------------------------------------- features


class BoxPretraining(Strict):
    """How a backbone first learns to name what the boxes of the training pictures hold."""

    epochs: PositiveInt = 8
    learning_rate: PositiveFloat = Field(8e-3, description="peak of a one-cycle schedule")
    images_per_batch: PositiveInt = 32


class GridFeatures(Strict):
    """Feature maps of a timm backbone, pooled to a square grid."""

    kind: Literal["grid"]
    backbone: str = Field(description="a timm model name")
    weights: str = Field(
        description="'pretrained' (hub), 'random', 'boxes' (trained first on the boxes of the data set's own training "
        "pictures), or a safetensors file relative to `inputs`"
    )
    pretraining: BoxPretraining | None = Field(None, description="for weights 'boxes'")
    activation: Literal["relu", "relu6", "gelu", "silu"] | None = Field(None, description="overrides the activation")
    out_index: int | None = Field(None, description="stage whose map is taken; default: the last, by forward_features")
    image_size: PositiveInt = Field(224, description="edge to which pictures are resized, in pixels")
    grid: PositiveInt = Field(7, description="cells per edge after adaptive average pooling")
    dtype: Literal["float16", "float32"] = Field("float16", description="type of the stored values")
    seed: int = Field(0, description="seed of random weights")
    batch_size: PositiveInt = 32
    shard_size: PositiveInt = Field(1000, description="images a shard: the unit of resuming")

    @model_validator(mode="after")
    def _pretraining_fits(self) -> GridFeatures:
        if (self.weights == "boxes") != (self.pretraining is not None):
            raise ValueError("`pretraining` goes with weights 'boxes', and with no others")
        return self


# ---------------------------------------------------------------------------------------------- models


class TransformerModel(Strict):
    """Encoder-decoder Transformer on feature vectors."""

    kind: Literal["transformer"]
    d_model: PositiveInt = 512
    heads: PositiveInt = 8
    d_feed_forward: PositiveInt = 2048
    encoder_layers: PositiveInt = 6
    decoder_layers: PositiveInt = 6
    norm: Literal["pre", "post"] = "pre"
    layer_norm: Literal["biased", "unbiased"] = Field("biased", description="unbiased: Annotated Transformer's form")
    dropout: float = Field(0.1, ge=0, lt=1)
    feature_dropout: float = Field(0.5, ge=0, lt=1, description="dropout after the feature projection")
    visual_positions: Literal["none", "grid"] = Field("none", description="grid: fixed codes of row and column")


class ZodiacModel(TransformerModel):
    """The Transformer with ZoDIAC attention (refined attention times an injected intensity)."""

    kind: Literal["zodiac"]  # type: ignore[assignment]
    gate: Literal["sigmoid", "tanh", "none"] = "sigmoid"
    zeta: float = Field(1.0, description="ZoneUp constant added to the gate (paper Eq. 8)")
    zodiac_dropout: float = Field(0.2, ge=0, lt=1, description="dropout on the attended values (paper Eq. 3)")
    rap_scope: Literal["head", "image", "global", "code"] = Field(
        "head", description="what one intensity is averaged over; decoder self-attention averages the prefix for 'head'"
    )
    gelu: bool = Field(True, description="false: the GELU-free ablation of Table IV")
    feed_forward_activation: Literal["none", "relu", "gelu"] = Field("none", description="published code: none")


Model = Annotated[TransformerModel | ZodiacModel, Field(discriminator="kind")]


# ---------------------------------------------------------------------------------------------- recipes


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
    optimizer: Literal["adam", "adamw"] = "adam"
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


class CrossEntropy(Stage):
    """Teacher forcing on the reference captions."""

    label_smoothing: float = Field(0.0, ge=0, lt=1)


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


# ---------------------------------------------------------------------------------------------- tables and profiles

METRICS = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr", "SPICE")


class Row(Strict):
    """One line of a table: what is trained, and what the paper printed."""

    id: str = Field(pattern=r"^[a-z0-9_.]+$")
    label: str
    dataset: str
    subset: str = "full"
    features: str
    model: str
    recipe: str
    stage: Literal["xe", "scst"] = "scst"
    printed: dict[str, float] = Field(default_factory=dict, description="metric -> printed value, in percent")

    @field_validator("printed")
    @classmethod
    def _known_metrics(cls, printed: dict[str, float]) -> dict[str, float]:
        unknown = sorted(set(printed) - set(METRICS))
        if unknown:
            raise ValueError(f"unknown metric {unknown[0]!r}; known are {', '.join(METRICS)}")
        return printed


class Table(Strict):
    """One result table: rows, columns, and the row that the others are tested against."""

    title: str
    scale: str = Field(description="what was scaled down, in words; stands under the table")
    columns: list[Literal[METRICS]]  # type: ignore[valid-type]
    baseline: str = Field(description="id of the row that the others are compared with")
    rows: list[Row] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Table:
        ids = [row.id for row in self.rows]
        if len(set(ids)) != len(ids):
            raise ValueError("two rows have the same id")
        if self.baseline not in ids:
            raise ValueError(f"baseline {self.baseline!r} is no row id; rows are {', '.join(ids)}")
        return self


class Profile(Strict):
    """What one run of the workflow makes."""

    name: str = Field(pattern=r"^[a-z0-9_]+$")
    tables: list[str] = Field(min_length=1)
    seeds: list[int] = Field(min_length=1, description="one training a seed and row")
    inputs: str = Field("resources", description="folder with the outside files that datasets and features name")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: a GPU if there is one")
    threads: PositiveInt = Field(1, description="CPU threads of one training or evaluation job")
    sample_captions: PositiveInt = Field(10, description="pictures on the contact sheet")

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) != len(seeds):
            raise ValueError("a seed stands twice")
        return seeds


SECTIONS: dict[str, Any] = {
    "datasets": Dataset,
    "subsets": Subset,
    "features": GridFeatures,
    "models": Model,
    "recipes": Recipe,
    "tables": Table,
}
