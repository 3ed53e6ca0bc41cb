"""Regions of a detectron2 detector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from recap.settings.base import neutral
from recap.settings.features import FEATURES, FeaturesConfig, Weights
from recap.settings.features.stored import BOX_BYTES, NUMBER_BYTES, StoredStream
from recap.settings.outside import Name
from recap.settings.sizes import Cells, Edge

_POOLED, _FC1 = 2048, 1024  # numbers of a vector


@FEATURES.register
class RegionFeatures(FeaturesConfig):
    """Regions of a detectron2 detector: boxes and their vectors, before or after the first of its last layers."""

    extractor: ClassVar[str] = "recap.features.regions:extract_regions"
    encoder: ClassVar[str] = "recap.share.photo_features:detectron"
    needs_detectron2: ClassVar[bool] = True
    has_boxes: ClassVar[bool] = True
    renamed_keys: ClassVar[dict[str, str]] = {"renamed": "key_map"}

    kind: Literal["regions"]
    detector: Literal["bottom_up_r101_c4", "grid_feats_x101_c5", "faster_rcnn_r50_c4"]
    weights: Weights = Field(
        description="'random', or a file relative to `inputs`: .safetensors, or .pth and .pkl that hold tensors alone"
    )
    key_map: dict[Name, Name] = Field(
        default_factory=dict,
        serialization_alias="renamed",
        description="prefix of a tensor's name in the weights file -> prefix in our detector",
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
    vectors: Literal["pooled", "fc1"] = neutral(
        "pooled", description="2048 numbers before the last layers, or the 1024 after the first of them"
    )
    selection: Literal["per_class", "rising"] = neutral(
        "per_class",
        description="per_class: suppressed within each class (Anderson et al.); rising: suppressed by the best class "
        "alone, at overlaps of 0.3, 0.4 ... 0.9 until there are enough (py-bottom-up-attention)",
    )
    proposals: PositiveInt | None = neutral(
        None, description="proposals that are classified; default: 300, for grid_feats_x101_c5 1000, as in the releases"
    )
    least_side: NonNegativeFloat | None = neutral(
        None,
        description="proposals with a shorter side, in pixels of the picture, are dropped; default: 16 for "
        "bottom_up_r101_c4, as in Caffe, else 0",
    )
    anchors: Literal["centred", "caffe"] = neutral(
        "centred",
        description="of bottom_up_r101_c4. centred: detectron2's, as py-bottom-up-attention configures them; caffe: "
        "those of Caffe in their order, with proposals that end at the last pixel (weights of MILVLG)",
    )
    box_weights: list[PositiveFloat] = neutral(
        [10.0, 10.0, 5.0, 5.0],
        min_length=4,
        max_length=4,
        description="by which regression deltas are divided, for boxes 'regressed' and selection 'rising'; 1, 1, 1, 1 "
        "in Caffe and MILVLG's code",
    )
    background: Literal["last", "first"] = neutral(
        "last", description="place of the background among the classes of the weights file; MILVLG's and Caffe's: first"
    )
    grid: Cells | None = Field(None, description="also the map as a stream `grid` of this many cells per edge")
    regions: bool = neutral(True, description="false: the grid alone")
    short_side: Edge = 600
    long_side: Edge = 1000
    seed: int = Field(0, description="seed of random weights")
    batch_size: PositiveInt = neutral(8, description="pictures of one size that pass through the backbone at a time")

    @model_validator(mode="after")
    def _counts_fit(self) -> RegionFeatures:
        if self.min_boxes > self.max_boxes:
            raise ValueError("min_boxes is larger than max_boxes")
        if self.selection == "rising" and self.min_boxes != self.max_boxes:
            raise ValueError("selection 'rising' stops at a number: set min_boxes and max_boxes to the same")
        return self

    @model_validator(mode="after")
    def _gives_something(self) -> RegionFeatures:
        if not self.regions and self.grid is None:
            raise ValueError("without regions there is the grid alone: say how many cells `grid` has")
        return self

    @model_validator(mode="after")
    def _has_layers(self) -> RegionFeatures:
        if self.vectors == "fc1" and self.detector != "grid_feats_x101_c5":
            raise ValueError(f"vectors: {self.detector} has no layer fc1; only grid_feats_x101_c5 has")
        if self.anchors == "caffe" and self.detector != "bottom_up_r101_c4":
            raise ValueError(f"anchors: {self.detector} has detectron2's; only bottom_up_r101_c4 may have Caffe's")
        return self

    def vectors_per_picture(self) -> int | None:
        """Return the number of boxes or, without regions, cells, if it is the same for all pictures."""
        if self.grid and not self.regions:
            return self.grid**2
        return self.max_boxes if self.min_boxes == self.max_boxes else None

    def streams(self) -> tuple[str, ...]:
        """Return the names of the streams, the main one first."""
        return (*(("region",) if self.regions else ()), *(("grid",) if self.grid else ()))

    def stored(self, named: Callable[[str], FeaturesConfig]) -> Mapping[str, StoredStream]:
        """Return the regions with boxes, classes and scores (of attributes, too, if any), and the grid if asked for."""
        labels = 2 * NUMBER_BYTES * (2 if self.attributes else 1)
        width = _FC1 if self.vectors == "fc1" else _POOLED
        most = StoredStream(self.max_boxes, width, BOX_BYTES + labels, self.min_boxes < self.max_boxes)
        grid = {"grid": StoredStream(self.grid**2, _POOLED)} if self.grid else {}
        return ({"region": most} if self.regions else {}) | grid
