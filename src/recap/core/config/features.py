"""Settings of feature extractors: ``params/features/``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from recap.core.config.base import Strict


class BoxPretraining(Strict):
    """How a backbone first learns to name what the boxes of the training pictures hold."""

    epochs: PositiveInt = 8
    learning_rate: PositiveFloat = Field(8e-3, description="peak of a one-cycle schedule")
    images_per_batch: PositiveInt = 32
    precision: Literal["float32", "bf16"] = Field("float32", description="bf16: half the time where a processor has it")


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


class CropFeatures(Strict):
    """One vector a box: the box is cut out and encoded by a timm model."""

    kind: Literal["crops"]
    boxes: str = Field(description="name of the features whose store has the boxes")
    backbone: str = Field(description="a timm model name")
    weights: str = Field(description="'pretrained' (hub), 'random', or a safetensors file relative to `inputs`")
    activation: Literal["relu", "relu6", "gelu", "silu"] | None = Field(None, description="overrides the activation")
    image_size: PositiveInt = Field(224, description="edge of the square that a crop becomes, in pixels")
    embedding: Literal["projected", "pooled"] = Field(
        "pooled", description="what CLIP's projection gives, or the pooled vector before the head"
    )
    crop: Literal["squash", "centre"] = Field(
        "centre", description="centre: shorter side to image_size, then its middle; squash: aspect is given up"
    )
    margin: NonNegativeFloat = Field(0.0, description="how much of its sides a box is widened by, all around")
    dtype: Literal["float16", "float32"] = Field("float16", description="type of the stored values")
    seed: int = Field(0, description="seed of random weights")
    batch_size: PositiveInt = Field(64, description="crops encoded at a time, of several pictures")
    shard_size: PositiveInt = Field(1000, description="images a shard: the unit of resuming")


class RegionFeatures(Strict):
    """Regions of a detectron2 detector: boxes and the vectors of 2048 numbers before its last layers."""

    kind: Literal["regions"]
    detector: Literal["bottom_up_r101_c4", "grid_feats_x101_c5", "faster_rcnn_r50_c4"]
    weights: str = Field(
        description="'random', or a file relative to `inputs`: .safetensors, or .pth and .pkl that hold tensors alone"
    )
    renamed: dict[str, str] = Field(
        default_factory=dict, description="beginning of a tensor's name in the weights file -> in our detector"
    )
    classes: PositiveInt = Field(1600, description="classes without the background")
    attributes: NonNegativeInt = Field(400, description="attributes; 0: the detector has no attribute head")
    min_boxes: PositiveInt = 10
    max_boxes: PositiveInt = Field(100, description="equal to min_boxes: a fixed number")
    score_threshold: float = Field(0.2, ge=0, le=1)
    nms: float = Field(0.3, gt=0, le=1, description="overlap above which the lower score of one class is dropped")
    boxes: Literal["proposals", "regressed"] = Field(
        "proposals", description="the original bottom-up features store the proposals"
    )
    grid: PositiveInt | None = Field(None, description="also the map as a stream `grid` of this many cells an edge")
    short_side: PositiveInt = 600
    long_side: PositiveInt = 1000
    dtype: Literal["float16", "float32"] = Field("float16", description="type of the stored values")
    seed: int = Field(0, description="seed of random weights")
    shard_size: PositiveInt = Field(1000, description="images a shard: the unit of resuming")

    @model_validator(mode="after")
    def _counts_fit(self) -> RegionFeatures:
        if self.min_boxes > self.max_boxes:
            raise ValueError("min_boxes is larger than max_boxes")
        return self


class SegmentFeatures(Strict):
    """What a detectron2 panoptic model sees, for the second stream of the Fusion Transformer's last row."""

    kind: Literal["segments"]
    weights: str = Field(description="'random', or a file relative to `inputs`, as for regions")
    form: Literal["occupancy", "segments"] = Field(
        "occupancy", description="share of each class in each cell; or one vector pooled over each segment"
    )
    grid: PositiveInt = Field(7, description="cells per edge, for form occupancy")
    short_side: PositiveInt = 800
    long_side: PositiveInt = 1333
    dtype: Literal["float16", "float32"] = Field("float16", description="type of the stored values")
    seed: int = Field(0, description="seed of random weights")
    shard_size: PositiveInt = Field(1000, description="images a shard: the unit of resuming")


class ImportedFeatures(Strict):
    """Features that others extracted: docs/feature_files.md describes the forms."""

    kind: Literal["imported"]
    form: Literal["bottom_up_tsv", "m2_hdf5", "grid_feats_pth", "vinvl_tsv", "npz_folder"]
    sources: list[str] = Field(min_length=1, description="files or a folder, relative to `inputs`")
    grid: NonNegativeInt = Field(7, description="for grid_feats_pth: cells per edge; 0 keeps the map as it is")
    rows: PositiveInt | None = Field(None, description="keep at most the first so many regions")
    clip_boxes: bool = Field(False, description="bring boxes that reach over the picture's edge back into it")
    dtype: Literal["float16", "float32"] = Field("float16", description="type of the stored values")
    shard_size: PositiveInt = Field(1000, description="images a shard: the unit of resuming")


Features = Annotated[
    GridFeatures | CropFeatures | RegionFeatures | SegmentFeatures | ImportedFeatures, Field(discriminator="kind")
]
