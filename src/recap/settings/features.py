"""Settings of feature extractors; a plug-in adds a kind with ``@FEATURES.register``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from recap.settings.base import (
    HUB,
    Cells,
    Edge,
    Name,
    NamesFiles,
    Outside,
    OutsideFile,
    Precision,
    Strict,
    omitted_at_default,
    only_with,
    reject_if,
)
from recap.settings.kinds import OneOf, Registry

FEATURES = Registry("kind of features")

# Weights: a file, unless they come from the hub,
# from a seed, or from a training on the data set's own boxes.
Weights = Annotated[str, Outside(but=("pretrained", "random", "boxes"))]
Activation = Literal["relu", "relu6", "gelu", "silu"]
Revision = Annotated[Name, Field(pattern=r"^[0-9a-f]{40}$")]

BOX_BYTES = 16  # four numbers of 4 bytes
NUMBER_BYTES = 4  # of a class, an attribute or a score


@dataclass(frozen=True)
class StoredStream:
    """How large one stream of a feature store is, known before any picture is read."""

    vectors: float  # of a picture
    width: int  # numbers in a vector
    beside: int = 0  # bytes beside each vector: its box, class, score
    at_most: bool = False  # pictures may have fewer vectors


class FeaturesConfig(NamesFiles):
    """What an extractor's settings say of themselves.

    The base of all kinds, which add ``kind`` and their keys.
    """

    #: ``module:Class`` of the :class:`recap.features.extraction.Encoder`
    #: of this kind, which makes the features of a data set and of photos
    #: that belong to none; None where pictures alone do not make them
    encoder: ClassVar[str | None] = None
    #: why there is none for photos, the end of a sentence
    no_encoder: ClassVar[str] = "their class names no `encoder`"
    #: ``module:function`` of the :class:`recap.features.extraction.Extractor`
    #: of this kind, which writes a store
    extractor: ClassVar[str] = "recap.features.extraction:extract_pictures"
    from_pictures: ClassVar[bool] = True  #: whether it reads the pictures of a data set
    #: whether it runs in the environment that has detectron2
    needs_detectron2: ClassVar[bool] = False
    has_boxes: ClassVar[bool] = False  #: whether its stores hold the boxes of the vectors
    #: its keys that name other features, whose stores it reads
    input_feature_keys: ClassVar[tuple[str, ...]] = ()
    #: keys that say how an extractor works, not what it makes;
    #: they are no part of a store's identity
    EXECUTION: ClassVar[frozenset[str]] = frozenset({"batch_size", "shard_size"})

    kind: Name
    dtype: Literal["float16", "float32"] = Field("float16", description="type of the stored values")
    shard_size: PositiveInt = Field(1000, description="images per shard: the unit of resuming")
    # Never in a dump: what is extracted does not depend on them.
    vector_width: PositiveInt | None = Field(
        None, exclude=True, description="numbers in a vector, for `recap plan`"
    )
    vector_count: PositiveFloat | None = Field(
        None,
        exclude=True,
        description=(
            "vectors of a picture, for `recap plan`, where the other keys do not say: the mean, or "
            "the most"
        ),
    )

    def input_features(self) -> dict[str, str]:
        """Return the names of the features whose stores are read:
        for `boxes` to cut out, or `cells` to pool."""
        return {key: getattr(self, key) for key in self.input_feature_keys}

    def vectors_per_picture(self) -> int | None:
        """Return how many vectors each picture has in the main stream;
        None: the settings do not fix their number."""
        return None

    def stored(self, named: Callable[[str], Self]) -> Mapping[str, StoredStream]:
        """Return the streams of a store by name, the main one first;
        none where their size is not known.

        ``named`` gives the settings of other features by name, for what is made from other stores.
        """
        return {}

    def products(self) -> tuple[str, ...]:
        """Return the files read of those that a data set's reader writes by the corpus."""
        return ()

    def trained_on_boxes(self) -> bool:
        """Return whether the weights are first trained on boxes of the data set (`pretrain`)."""
        return False

    def hub(self) -> str | None:
        """Return ``hub:OWNER/NAME[@REVISION]`` of weights from the HuggingFace hub."""
        return None

    def targets(self) -> list[str]:
        """Return the objects, as ``module:object``, whose source decides what the stores hold."""
        return [self.extractor, *([self.encoder] if self.encoder else [])]

    def identity(self) -> dict[str, Any]:
        """Return what a store is made by, under the names of the first stores."""
        return self.model_dump(mode="json", by_alias=True, exclude=set(self.EXECUTION))


Features = Annotated[FeaturesConfig, FEATURES]


class TimmFeatures(FeaturesConfig):
    """What the kinds share that encode pictures by a timm model."""

    backbone: Name = Field(description="a timm model name")
    activation: Activation | None = Field(None, description="overrides the activation")
    seed: int = Field(0, description="seed of random weights")
    weights: Weights
    revision: Revision | None = omitted_at_default(
        None,
        description=(
            "for weights 'pretrained': commit of their repository in the hub; null: its newest"
        ),
    )

    _revision_is_of_the_hub = only_with("revision", when=("weights", "pretrained"), required=False)

    def hub(self) -> str | None:
        pinned = f"@{self.revision}" if self.revision else ""
        return f"{HUB}timm/{self.backbone}{pinned}" if self.weights == "pretrained" else None


class BoxPretraining(Strict):
    """How a backbone first learns to name what the boxes of the training pictures hold."""

    epochs: PositiveInt = 8
    learning_rate: PositiveFloat = Field(8e-3, description="peak of a one-cycle schedule")
    images_per_batch: PositiveInt = 32
    precision: Precision = "float32"


@FEATURES.register
class GridFeatures(TimmFeatures):
    """Feature maps of a timm backbone, pooled to a square grid."""

    extractor: ClassVar[str] = "recap.features.grid:extract_grid"
    encoder: ClassVar[str | None] = "recap.features.grid:Backbone"

    kind: Literal["grid"]
    weights: Weights = Field(
        description=(
            "'pretrained' (hub), 'random', 'boxes' (trained first on the boxes of the data set's "
            "own training pictures), or a safetensors file relative to `inputs`"
        )
    )
    pretraining: BoxPretraining | None = Field(None, description="for weights 'boxes'")
    out_index: int | None = Field(
        None, description="stage whose map is taken; default: the last, by forward_features"
    )
    image_size: Edge = Field(224, description="edge to which pictures are resized, in pixels")
    grid: Cells = Field(7, description="cells per edge after adaptive average pooling")
    standardised: bool = omitted_at_default(
        False,
        description=(
            "each channel has mean 0 and deviation 1 over training pictures; with random weights "
            "always"
        ),
    )
    batch_size: PositiveInt = Field(32, description="pictures encoded at a time")

    _pretrained_on_boxes = only_with("pretraining", when=("weights", "boxes"))

    def standardises(self) -> bool:
        """Return whether the channels are brought to one scale; random ones have none."""
        return self.standardised or self.weights == "random"

    def trained_on_boxes(self) -> bool:
        return self.weights == "boxes"

    def vectors_per_picture(self) -> int:
        return self.grid**2

    def stored(self, named: Callable[[str], FeaturesConfig]) -> Mapping[str, StoredStream]:
        return {"grid": StoredStream(self.grid**2, self.vector_width)} if self.vector_width else {}


@FEATURES.register
class CropFeatures(TimmFeatures):
    """One vector per box: the box is cut out and encoded by a timm model."""

    extractor: ClassVar[str] = "recap.features.grid:extract_crops"
    input_feature_keys: ClassVar[tuple[str, ...]] = ("boxes",)
    no_encoder: ClassVar[str] = (
        "they are crops of boxes that other features give, and a photo brings no boxes"
    )

    kind: Literal["crops"]
    boxes: Name = Field(description="name of the features whose store has the boxes")
    weights: Weights = Field(
        description="'pretrained' (hub), 'random', or a safetensors file relative to `inputs`"
    )
    image_size: Edge = Field(224, description="edge of the square that a crop becomes, in pixels")
    embedding: Literal["projected", "pooled"] = Field(
        "pooled", description="what CLIP's projection gives, or the pooled vector before the head"
    )
    crop: Literal["squash", "centre"] = Field(
        "centre",
        description=(
            "centre: shorter side to image_size, then its middle; squash: aspect is given up"
        ),
    )
    margin: NonNegativeFloat = Field(
        0.0, description="how much of its sides a box is widened by, all around"
    )
    batch_size: PositiveInt = Field(64, description="crops encoded at a time, of several pictures")

    def stored(self, named: Callable[[str], FeaturesConfig]) -> Mapping[str, StoredStream]:
        boxes = named(self.boxes).stored(named).get("region")
        if not boxes or not self.vector_width:
            return {}
        return {"region": replace(boxes, width=self.vector_width, beside=BOX_BYTES)}


BOXES = "boxes.json"  # of a data set that knows what is where in its pictures


@FEATURES.register
class PooledFeatures(FeaturesConfig):
    """Regions or segments without a detector: true areas of scenes, or merged cells."""

    extractor: ClassVar[str] = "recap.features.pooled:extract_pooled"
    input_feature_keys: ClassVar[tuple[str, ...]] = ("cells",)
    from_pictures: ClassVar[bool] = False
    has_boxes: ClassVar[bool] = True
    no_encoder: ClassVar[str] = (
        "they are pooled from the store of other features, and a photo brings none"
    )

    kind: Literal["pooled"]
    cells: Name = Field(description="name of the features whose store has the grid")
    areas: Literal["boxes", "masks", "occupancy", "merged"] = Field(
        description=(
            "true boxes of the objects (stream `region`); their true masks and the ground "
            "(`segment`); the share of each kind of object and ground in each cell (`segment`, "
            "without boxes); or neighboring cells that are alike (`region`)"
        )
    )
    regions: PositiveInt | None = Field(
        None, description="for merged: so many groups of cells that are alike"
    )

    _groups_are_merged = only_with("regions", when=("areas", "merged"))

    def products(self) -> tuple[str, ...]:
        return () if self.areas == "merged" else (BOXES,)

    def stored(self, named: Callable[[str], FeaturesConfig]) -> Mapping[str, StoredStream]:
        cells = named(self.cells).stored(named).get("grid")
        vectors = self.regions or self.vector_count
        if cells and self.areas == "occupancy" and self.vector_width:
            return {"segment": replace(cells, width=self.vector_width)}
        if cells and self.areas != "occupancy" and vectors:
            stream = "segment" if self.areas == "masks" else "region"
            return {stream: StoredStream(vectors, cells.width, BOX_BYTES)}
        return {}


_POOLED, _FC1 = 2048, 1024  # numbers of a detector's vector


@FEATURES.register
class RegionFeatures(FeaturesConfig):
    """Regions of a detectron2 detector: boxes and their vectors,
    before or after the first of its last layers."""

    encoder: ClassVar[str | None] = "recap.features.detectors:Detector"
    needs_detectron2: ClassVar[bool] = True
    has_boxes: ClassVar[bool] = True

    kind: Literal["regions"]
    detector: Literal["bottom_up_r101_c4", "grid_feats_x101_c5", "faster_rcnn_r50_c4"]
    weights: Weights = Field(
        description=(
            "'random', or a file relative to `inputs`: .safetensors, or .pth and .pkl that hold "
            "tensors alone"
        )
    )
    key_map: dict[Name, Name] = Field(
        {},
        serialization_alias="renamed",  # its name when the first stores were made
        description="prefix of a tensor's name in the weights file -> prefix in our detector",
    )
    classes: PositiveInt = Field(1600, description="classes without the background")
    attributes: NonNegativeInt = Field(
        400, description="attributes; 0: the detector has no attribute head"
    )
    min_boxes: PositiveInt = 10
    max_boxes: PositiveInt = Field(100, description="equal to min_boxes: a fixed number")
    score_threshold: float = Field(0.2, ge=0, le=1)
    nms: float = Field(
        0.3, gt=0, le=1, description="overlap above which the lower score of one class is dropped"
    )
    boxes: Literal["proposals", "regressed"] = Field(
        "proposals", description="the original bottom-up features store the proposals"
    )
    vectors: Literal["pooled", "fc1"] = omitted_at_default(
        "pooled",
        description="2048 numbers before the last layers, or the 1024 after the first of them",
    )
    selection: Literal["per_class", "rising"] = omitted_at_default(
        "per_class",
        description=(
            "per_class: suppressed within each class (Anderson et al.); rising: suppressed by the "
            "best class alone, at overlaps of 0.3, 0.4 ... 0.9 until there are enough "
            "(py-bottom-up-attention)"
        ),
    )
    proposals: PositiveInt | None = omitted_at_default(
        None,
        description=(
            "proposals that are classified; default: 300, for grid_feats_x101_c5 1000, as in the "
            "releases"
        ),
    )
    least_side: NonNegativeFloat | None = omitted_at_default(
        None,
        description=(
            "proposals with a shorter side, in pixels of the picture, are dropped; default: 16 "
            "for bottom_up_r101_c4, as in Caffe, else 0"
        ),
    )
    anchors: Literal["centred", "caffe"] = omitted_at_default(
        "centred",
        description=(
            "of bottom_up_r101_c4. centred: detectron2's, as py-bottom-up-attention configures "
            "them; caffe: those of Caffe in their order, with proposals that end at the last "
            "pixel (weights of MILVLG)"
        ),
    )
    box_weights: list[PositiveFloat] = omitted_at_default(
        [10.0, 10.0, 5.0, 5.0],
        min_length=4,
        max_length=4,
        description=(
            "by which regression deltas are divided, for boxes 'regressed' and selection "
            "'rising'; 1, 1, 1, 1 in Caffe and MILVLG's code"
        ),
    )
    background: Literal["last", "first"] = omitted_at_default(
        "last",
        description=(
            "place of the background among the classes of the weights file; MILVLG's and Caffe's: "
            "first"
        ),
    )
    grid: Cells | None = Field(
        None, description="also the map as a stream `grid` of this many cells per edge"
    )
    regions: bool = omitted_at_default(True, description="false: the grid alone")
    short_side: Edge = 600
    long_side: Edge = 1000
    seed: int = Field(0, description="seed of random weights")
    batch_size: PositiveInt = omitted_at_default(
        8, description="pictures of one size that pass through the backbone at a time"
    )

    _layer_fc1 = only_with("vectors", when=("detector", "grid_feats_x101_c5"), required=False)
    _caffes_anchors = only_with("anchors", when=("detector", "bottom_up_r101_c4"), required=False)
    _counts_fit = reject_if(
        lambda boxes: boxes.min_boxes > boxes.max_boxes, "min_boxes is larger than max_boxes"
    )
    _rises_to_a_number = reject_if(
        lambda boxes: boxes.selection == "rising" and boxes.min_boxes != boxes.max_boxes,
        "selection 'rising' stops at a number: set min_boxes and max_boxes to the same",
    )
    _has_streams = reject_if(
        lambda boxes: not boxes.regions and boxes.grid is None,
        "without regions there is the grid alone: say how many cells `grid` has",
    )

    def vectors_per_picture(self) -> int | None:
        if self.grid and not self.regions:
            return self.grid**2
        return self.max_boxes if self.min_boxes == self.max_boxes else None

    def streams(self) -> tuple[str, ...]:
        """Return the names of the streams, the main one first."""
        wanted = {"region": self.regions, "grid": self.grid}
        return tuple(name for name, is_wanted in wanted.items() if is_wanted)

    def stored(self, named: Callable[[str], FeaturesConfig]) -> Mapping[str, StoredStream]:
        # classes and attributes, each with scores
        labels = NUMBER_BYTES * (4 if self.attributes else 2)
        width = _FC1 if self.vectors == "fc1" else _POOLED
        at_most = self.min_boxes < self.max_boxes
        streams = {}
        if self.regions:
            streams["region"] = StoredStream(self.max_boxes, width, BOX_BYTES + labels, at_most)
        if self.grid:
            streams["grid"] = StoredStream(self.grid**2, _POOLED)
        return streams


@FEATURES.register
class SegmentFeatures(FeaturesConfig):
    """What a detectron2 panoptic model sees, as a second stream beside a grid."""

    encoder: ClassVar[str | None] = "recap.features.detectors:Segmenter"
    needs_detectron2: ClassVar[bool] = True

    kind: Literal["segments"]
    weights: Weights = Field(description="'random', or a file relative to `inputs`, as for regions")
    form: Literal["occupancy", "segments"] = Field(
        "occupancy",
        description="share of each class in each cell; or one vector pooled over each segment",
    )
    grid: Cells = Field(7, description="cells per edge, for form occupancy")
    short_side: Edge = 800
    long_side: Edge = 1333
    seed: int = Field(0, description="seed of random weights")
    batch_size: PositiveInt = omitted_at_default(
        8, description="pictures of one size that pass through the backbone at a time"
    )

    def vectors_per_picture(self) -> int | None:
        return self.grid**2 if self.form == "occupancy" else None

    def stored(self, named: Callable[[str], FeaturesConfig]) -> Mapping[str, StoredStream]:
        is_grid = self.form == "occupancy"
        count = self.grid**2 if is_grid else self.vector_count
        if not count or not self.vector_width:
            return {}
        beside = 0 if is_grid else BOX_BYTES + NUMBER_BYTES
        return {"segment": StoredStream(count, self.vector_width, beside)}


# Each opens files of its format as a :class:`recap.features.importers.Source`.
FORMATS = Registry(
    "format",
    {
        "bottom_up_tsv": "recap.features.formats:BottomUpTsv",
        "m2_hdf5": "recap.features.formats:M2Hdf5",
        "grid_feats_pth": "recap.features.formats:GridFeatsPth",
        "vinvl_tsv": "recap.features.formats:VinvlTsv",
        "npz_folder": "recap.features.formats:NpzFolder",
    },
)


@FEATURES.register
class ImportedFeatures(FeaturesConfig):
    """Features that others extracted: docs/reference/feature_files.md describes the formats."""

    extractor: ClassVar[str] = "recap.features.importers:import_features"
    no_encoder: ClassVar[str] = (
        "they are files that others extracted, and what extracted them is not here"
    )
    from_pictures: ClassVar[bool] = False
    has_boxes: ClassVar[bool] = True

    kind: Literal["imported"]
    # its name in the first stores
    format: Annotated[str, OneOf(FORMATS.names)] = Field(serialization_alias="form")
    sources: list[OutsideFile] = Field(
        min_length=1, description="files or a folder, relative to `inputs`"
    )
    grid: NonNegativeInt = Field(
        7, description="for grid_feats_pth: cells per edge; 0 keeps the map as it is"
    )
    rows: PositiveInt | None = Field(None, description="keep only the first N regions")
    clip_boxes: bool = Field(False, description="clip boxes to the picture")
    names: Literal["files", "ids"] | None = omitted_at_default(
        None,
        description=(
            "what the files call an image by: the name of its picture, or its image id; null: told "
            "by both"
        ),
    )
    damaged: list[int] = omitted_at_default(
        [],
        description=(
            "of the TSV formats: ids of images with damaged lines; a whole line of the "
            "same image is taken, an image without one is left out, and as many lines "
            "without an id are passed over"
        ),
    )

    def outside_files(self) -> list[str]:
        files = super().outside_files()
        if self.format == "vinvl_tsv":
            files += [str(PurePosixPath(name).with_suffix(".lineidx")) for name in self.sources]
        return files

    def targets(self) -> list[str]:
        return [self.extractor, FORMATS.target(self.format)]

    def vectors_per_picture(self) -> int | None:
        return self.grid**2 or None if self.format == "grid_feats_pth" else None

    def stored(self, named: Callable[[str], FeaturesConfig]) -> Mapping[str, StoredStream]:
        cells = self.vectors_per_picture()
        regions = self.rows or self.vector_count
        if self.vector_width and cells:
            return {"grid": StoredStream(cells, self.vector_width)}
        if self.vector_width and regions:
            return {"region": StoredStream(regions, self.vector_width, BOX_BYTES, at_most=True)}
        return {}
