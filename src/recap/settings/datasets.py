"""Settings of data sets, their vocabularies and subsets.

A plug-in adds a kind with ``@DATASETS.register``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, Field, NonNegativeInt, PositiveFloat, PositiveInt, Tag

from recap.settings.base import (
    HUB,
    Name,
    NamesFiles,
    OutsideFile,
    Strict,
    all_or_none,
    omitted_at_default,
    reject_if,
)
from recap.settings.kinds import Registry

DATASETS = Registry("kind of data set")
# The product with the pictures of a data set whose reader makes or collects them.
PICTURES = "images.zip"


class VocabularyRule(NamesFiles):
    """Which words get an id (COCO's rule: lower case, count >= 6 over all splits, 16 words)."""

    min_count: PositiveInt = Field(6, description="words seen less often become <unk>")
    splits: Literal["train", "all"] = Field(
        "train", description="where words are counted; COCO's 9,487 need 'all'"
    )
    max_length: PositiveInt = Field(
        16, description="captions are cut to this many words in training"
    )


class BytePairRule(NamesFiles):
    """GPT-2's byte pairs in place of words."""

    kind: Literal["bpe"]
    tokenizer: OutsideFile = Field(
        description=(
            "a folder with vocab.json and merges.txt, or a tokenizer.json, relative to the "
            "profile's `inputs`; or `hub:openai-community/gpt2@COMMIT`"
        )
    )
    max_length: PositiveInt = Field(
        60, description="captions are cut to this many pieces, between two words"
    )

    def outside_files(self) -> list[str]:
        if self.tokenizer.startswith(HUB):
            return []
        if self.tokenizer.endswith(".json"):
            return [self.tokenizer]
        return [f"{self.tokenizer}/vocab.json", f"{self.tokenizer}/merges.txt"]


def _rule(values: Any) -> str:
    """Byte pairs say their kind; words, the usual rule, do not."""
    says = "kind" in values if isinstance(values, dict) else isinstance(values, BytePairRule)
    return "BytePairRule" if says else "VocabularyRule"


VocabularyConfig = Annotated[
    Annotated[VocabularyRule, Tag("VocabularyRule")] | Annotated[BytePairRule, Tag("BytePairRule")],
    Discriminator(_rule),
]


class Subset(Strict):
    """How much of the training split is used; ``full`` is {fraction: 1}."""

    fraction: float = Field(1.0, gt=0, le=1, description="share of the training pairs or images")
    unit: Literal["pair", "image"] = Field(
        "pair", description="draw single captions, or images with all captions"
    )


class Draw(Subset, frozen=True):
    """A subset of one seed, from the training rows that are not held out."""

    seed: int


class WebDraws(Strict):
    """The draws of a data set from one list of web pictures."""

    held_out: int = Field(description="rows of the validation split")
    seed: int = Field(description="of the draw of the validation split")
    survival: float = Field(description="share of the addresses that have a picture, at least")
    draws: list[Draw]


class Counts(Strict):
    """Images per split, and captions: the size of a data set before its files are there."""

    train: NonNegativeInt
    val: NonNegativeInt
    test: NonNegativeInt
    captions: NonNegativeInt

    @property
    def images(self) -> int:
        """Images of all splits."""
        return self.train + self.val + self.test

    @property
    def captions_per_image(self) -> float:
        """Mean captions of an image."""
        return self.captions / self.images


@dataclass(frozen=True)
class WebPictures:
    """Pictures behind addresses: the TSV with these,
    and the shorter side to which larger ones are shrunk (0: none)."""

    tsv: str
    min_side: int


class DatasetConfig(NamesFiles):
    """What a data set's settings say of themselves.

    The base class of all kinds, which add ``kind`` and their keys.
    """

    #: ``module:function`` of the :class:`recap.data.datasets.base.Reader` of this kind
    reader: ClassVar[str]
    products: ClassVar[tuple[str, ...]] = ()  #: files that the reader writes beside corpus.parquet
    #: keys that say nothing of the pictures and of their ids
    of_captions: ClassVar[tuple[str, ...]] = ("vocabulary",)
    kind: Name
    vocabulary: VocabularyConfig = VocabularyRule()
    upright: bool = Field(
        True, description="turn pictures by their EXIF orientation, as phones store it"
    )
    # For `recap plan`, never in a dump: no file is made from them.
    counts: Counts | None = Field(
        None, exclude=True, description="images of each split, and captions of all"
    )
    caption_words: PositiveFloat | None = Field(
        None, exclude=True, description="mean words of a caption"
    )
    vocabulary_ids: PositiveInt | None = Field(
        None, exclude=True, description="ids of the vocabulary, with special ones"
    )

    def pictures_per_image(self) -> int:
        """Return how many pictures (views of a study), with vectors in a row, an image has."""
        return 1

    def known_counts(self) -> Counts | None:
        """Return how many images and captions there are; None: the settings do not say."""
        return self.counts

    def pictures(self) -> dict[str, Any]:
        """Return what decides which pictures there are.

        Data sets where it is equal share their feature stores.
        """
        return self.model_dump(exclude=set(self.of_captions))

    def picture_sources(self) -> list[str]:
        """Return the folders or archives of the pictures; none: they are in PICTURES."""
        return [] if PICTURES in self.products else self.named_files()["images"]

    def captions_alone(self) -> Self:
        """Return the settings by which captions are read, without a list of pictures."""
        return self.model_copy(
            update={"images": []} if isinstance(getattr(self, "images", None), list) else {}
        )

    def web_pictures(self) -> dict[str, WebPictures]:
        """Return the pictures fetched from the web, by their list's path below `inputs`."""
        return {}


Dataset = Annotated[DatasetConfig, DATASETS]


class PublishedDataset(DatasetConfig):
    """A data set whose published features were made from its pictures as they are stored."""

    upright: bool = omitted_at_default(
        False, description="turn pictures by their EXIF orientation; published features do not"
    )


# Karpathy's split of the 82,783 training and 40,504 validation pictures of 2014.
COCO_IMAGES = {"train": 113_287, "val": 5_000, "test": 5_000}
COCO_CAPTIONS = 616_767


@DATASETS.register
class CocoDataset(PublishedDataset):
    """COCO's captions: Karpathy's JSON, or the annotations and Karpathy's two lists."""

    reader: ClassVar[str] = "recap.data.datasets.coco:build"
    of_captions: ClassVar[tuple[str, ...]] = (
        "vocabulary",
        "annotations",
        "val_list",
        "test_list",
        "partial",
    )

    kind: Literal["coco"]
    annotations: list[OutsideFile] = Field(
        min_length=1,
        description=(
            "captions_*.json, or zips that hold them; without lists: dataset_coco.json or a zip of "
            "it"
        ),
    )
    val_list: OutsideFile | None = Field(
        None, description="Karpathy's validation pictures, one line 'path id' each"
    )
    test_list: OutsideFile | None = Field(
        None, description="his test pictures; every other picture is for training"
    )
    images: list[OutsideFile] = Field(
        description="folders or zips of pictures, under their names of 2014 or of 2017"
    )
    partial: bool = Field(
        False, description="the annotations cover a part of COCO: no count is asserted"
    )
    vocabulary: VocabularyConfig = VocabularyRule(splits="all")

    _lists = all_or_none("val_list", "test_list")
    _one_file_without_lists = reject_if(
        lambda coco: coco.val_list is None and len(coco.annotations) != 1,
        "several annotations need val_list and test_list",
    )

    def known_counts(self) -> Counts | None:
        return self.counts if self.partial else Counts(**COCO_IMAGES, captions=COCO_CAPTIONS)


# Pictures of the parts of COCO that the caption server scores;
# the part is the folder of a picture's name.
COCO_PARTS = {"val2014": 40_504, "test2014": 40_775}


class PicturesAlone(DatasetConfig):
    """A data set without references: its pictures can be captioned,
    and nothing can be trained on it or scored."""


@DATASETS.register
class CocoPicturesDataset(PublishedDataset, PicturesAlone):
    """Pictures and ids of COCO without captions: those that a model captions for COCO's server."""

    reader: ClassVar[str] = "recap.data.datasets.coco:build_pictures"

    kind: Literal["coco_pictures"]
    listing: OutsideFile = Field(description="image_info_test2014.json, or a zip that holds it")
    images: list[OutsideFile] = Field(
        description="folders or zips with the pictures, under the names of the listing"
    )
    partial: bool = Field(
        False, description="the listing is a part of COCO's: no count is asserted"
    )

    def known_counts(self) -> Counts | None:
        number = next((number for part, number in COCO_PARTS.items() if part in self.listing), None)
        if self.partial or number is None:
            return self.counts
        return Counts(train=0, val=0, test=number, captions=0)


# What `recap data conceptual-download` writes beside the pictures: which of them are there.
SURVIVORS = "survivors.parquet"
TRAINING_ROWS, VALIDATION_ROWS = 3_318_333, 15_840  # of the published lists of Conceptual Captions
# X-rays of the split of Chen et al., without the three studies whose pictures are missing.
STUDIES = Counts(train=2_067, val=295, test=590, captions=2_952)


@DATASETS.register
class ConceptualDataset(PublishedDataset):
    """Conceptual Captions: web pictures with one caption each.

    Fetch them with `recap data conceptual-download`.
    """

    reader: ClassVar[str] = "recap.data.datasets.conceptual:build"

    kind: Literal["conceptual"]
    train: OutsideFile = Field(
        description="the training TSV (caption TAB url), plain or .gz; relative to `inputs`"
    )
    validation: OutsideFile = Field(
        description="the public validation TSV, which is the test split"
    )
    images: OutsideFile = Field(
        description="folder of the downloads `train/` and `validation/`; relative to `inputs`"
    )
    val_pairs: PositiveInt = Field(
        5000, description="training pairs that are drawn as validation split"
    )
    seed: int = Field(0, description="seed of that draw")
    min_side: NonNegativeInt = omitted_at_default(
        384,
        description=(
            "shorter side to which larger pictures are shrunk when they are fetched, in pixels; "
            "no less than what the extractors read; 0: pictures are not shrunk"
        ),
    )
    survival: float | None = omitted_at_default(
        None,
        gt=0,
        le=1,
        description=(
            "share of the training addresses that have a picture, at least: only rows that draws "
            "need are fetched, and a subset is a share of all rows; without it, all are fetched, "
            "and it is a share of the pictures"
        ),
    )

    def outside_files(self) -> list[str]:
        return [self.train, self.validation, *self.web_pictures()]

    def web_pictures(self) -> dict[str, WebPictures]:
        parts = {"train": self.train, "validation": self.validation}
        return {
            f"{self.images}/{part}/{SURVIVORS}": WebPictures(tsv, self.min_side)
            for part, tsv in parts.items()
        }


class Shares(Strict):
    """Shares of the images that a random split gives to each part."""

    train: float = Field(gt=0, lt=1)
    val: float = Field(gt=0, lt=1)
    test: float = Field(gt=0, lt=1)
    seed: int = Field(0, description="seed of the random split")

    _sum_is_one = reject_if(
        lambda shares: not math.isclose(shares.train + shares.val + shares.test, 1, abs_tol=1e-6),
        "the shares {train:g}, {val:g} and {test:g} do not sum to 1; correct them",
    )


@DATASETS.register
class CsvDataset(DatasetConfig):
    """Captions in a CSV file: one caption a row, in the columns file, split and caption."""

    reader: ClassVar[str] = "recap.data.datasets.csv_captions:build"

    kind: Literal["csv"]
    captions: OutsideFile = Field(description="the CSV; relative to the profile's `inputs`")
    images: list[OutsideFile] = Field(
        description="folders or zips with the pictures; relative to `inputs`"
    )
    split: Shares | None = Field(
        None, description="draw a random split, in place of the column `split`"
    )


@DATASETS.register
class IuXrayDataset(PublishedDataset):
    """Indiana University chest X-rays: studies of two views, with the findings of their reports."""

    reader: ClassVar[str] = "recap.data.datasets.iu_xray:build"
    products: ClassVar[tuple[str, ...]] = (PICTURES, "studies.csv", "counts.md")
    of_captions: ClassVar[tuple[str, ...]] = ("vocabulary", "max_words")

    kind: Literal["iu_xray"]
    reports: OutsideFile = Field(
        description="NLMCXR_reports.tgz, or a folder or zip of it; relative to `inputs`"
    )
    images: list[OutsideFile] = Field(
        description="NLMCXR_png.tgz, or folders, zips or tgz's; relative to `inputs`"
    )
    annotations: OutsideFile | None = Field(
        None, description="annotation of Chen et al. with their split; or one is drawn, 7 : 1 : 2"
    )
    projections: OutsideFile | None = Field(
        None, description="indiana_projections.csv: frontal and lateral views"
    )
    views: PositiveInt = Field(
        2, description="pictures per study, where the split is drawn; fewer: left out"
    )
    max_words: PositiveInt | None = omitted_at_default(
        None, description="words of a report that a model learns, for byte pairs"
    )
    vocabulary: VocabularyConfig = VocabularyRule(min_count=3, splits="train", max_length=60)
    counts: Counts | None = Field(STUDIES, exclude=True)

    def pictures_per_image(self) -> int:
        return self.views

    def captions_alone(self) -> Self:
        return self.model_copy(update={"images": [], "projections": None})


# Karpathy's splits of photos, by what his file is called.
KARPATHY_COUNTS = {
    "dataset_flickr8k": Counts(train=6_000, val=1_000, test=1_000, captions=40_000),
    "dataset_flickr30k": Counts(train=29_000, val=1_014, test=1_000, captions=155_070),
}


@DATASETS.register
class KarpathyDataset(PublishedDataset):
    """A data set in Karpathy's JSON form
    (dataset_coco.json, dataset_flickr8k.json, dataset_flickr30k.json)."""

    reader: ClassVar[str] = "recap.data.datasets.base:build_karpathy"

    kind: Literal["karpathy"]
    annotations: OutsideFile = Field(
        description="the JSON, or a zip that holds it; relative to the profile's `inputs`"
    )
    member: Name = Field(
        "*.json", description="name or pattern of the JSON in a zip that holds several"
    )
    images: list[OutsideFile] = Field(
        description="folders or zips with the pictures; relative to `inputs`"
    )
    merge_restval: bool = Field(
        True, description="count COCO's 'restval' images as training images"
    )

    def known_counts(self) -> Counts | None:
        files = f"{self.annotations} {self.member}"
        return self.counts or next(
            (counts for file, counts in KARPATHY_COUNTS.items() if f"{file}." in files), None
        )


SCENE_CAPTIONS = 5  # of each scene


@DATASETS.register
class ScenesDataset(PublishedDataset):
    """The built-in data set: rendered scenes with captions from a seeded grammar."""

    reader: ClassVar[str] = "recap.data.datasets.scenes:build"
    products: ClassVar[tuple[str, ...]] = (PICTURES, "boxes.json")

    kind: Literal["scenes"]
    train: PositiveInt = Field(2000, description="number of training pictures")
    val: PositiveInt = Field(200, description="number of validation pictures")
    test: PositiveInt = Field(200, description="number of test pictures")
    size: int = Field(112, ge=32, description="edge of a picture in pixels")
    max_per_kind: int = Field(
        5, ge=1, le=5, description="maximum number of objects of one kind in a picture"
    )
    seed: int = Field(0, description="seed of pictures and captions")
    vocabulary: VocabularyConfig = VocabularyRule(min_count=2, splits="train", max_length=20)

    def known_counts(self) -> Counts:
        captions = SCENE_CAPTIONS * (self.train + self.val + self.test)
        return Counts(train=self.train, val=self.val, test=self.test, captions=captions)
