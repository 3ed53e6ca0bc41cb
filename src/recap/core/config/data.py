"""Settings of data sets, vocabularies and subsets: ``params/datasets/`` and ``params/subsets/``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, PositiveInt, Tag, model_validator

from recap.core.config.base import Strict


class VocabularyRule(Strict):
    """Which words get an id of their own (COCO's rule: lower case, count >= 6 over all splits, 16 words)."""

    min_count: PositiveInt = Field(6, description="words seen less often become <unk>")
    splits: Literal["train", "all"] = Field("train", description="where words are counted; COCO's 9,487 need 'all'")
    max_length: PositiveInt = Field(16, description="captions are cut to this many words in training")


class BytePairRule(Strict):
    """GPT-2's byte pairs in place of words."""

    kind: Literal["bpe"]
    tokenizer: str = Field(
        description="a folder with vocab.json and merges.txt, or a tokenizer.json, relative to the profile's `inputs`; "
        "or `hub:openai-community/gpt2`"
    )
    max_length: PositiveInt = Field(60, description="captions are cut to this many pieces, between two words")


def _rule(values: Any) -> str:
    """Byte pairs say their kind; words, the usual rule, do not."""
    says = "kind" in values if isinstance(values, dict) else isinstance(values, BytePairRule)
    return "BytePairRule" if says else "VocabularyRule"


Words = Annotated[
    Annotated[VocabularyRule, Tag("VocabularyRule")] | Annotated[BytePairRule, Tag("BytePairRule")],
    Discriminator(_rule),
]


class KarpathyDataset(Strict):
    """A data set in Karpathy's JSON form (dataset_coco.json, dataset_flickr8k.json, dataset_flickr30k.json)."""

    kind: Literal["karpathy"]
    annotations: str = Field(description="the JSON, or a zip that holds it; relative to the profile's `inputs`")
    member: str = Field("*.json", description="name or pattern of the JSON in a zip that holds several")
    images: list[str] = Field(description="folders or zips with the pictures; relative to the profile's `inputs`")
    merge_restval: bool = Field(True, description="count COCO's 'restval' images as training images")
    vocabulary: Words = VocabularyRule()


class CocoDataset(Strict):
    """Microsoft COCO's captions: Karpathy's JSON, or the plain annotations and Karpathy's two lists of pictures."""

    kind: Literal["coco"]
    annotations: list[str] = Field(
        min_length=1,
        description="captions_*.json, or zips that hold them; without lists: dataset_coco.json or a zip of it",
    )
    val_list: str | None = Field(None, description="Karpathy's validation pictures, a line 'path id' each")
    test_list: str | None = Field(None, description="Karpathy's test pictures; every other picture is for training")
    images: list[str] = Field(description="folders or zips with the pictures, under their names of 2014 or of 2017")
    partial: bool = Field(False, description="the annotations cover a part of COCO: no count is asserted")
    vocabulary: Words = VocabularyRule(splits="all")

    @model_validator(mode="after")
    def _lists_go_together(self) -> CocoDataset:
        if (self.val_list is None) != (self.test_list is None):
            raise ValueError("val_list and test_list go together")
        if self.val_list is None and len(self.annotations) != 1:
            raise ValueError("several annotations need val_list and test_list")
        return self


class ScenesDataset(Strict):
    """The built-in data set: rendered scenes with captions from a seeded grammar."""

    kind: Literal["scenes"]
    train: PositiveInt = Field(2000, description="number of training pictures")
    val: PositiveInt = Field(200, description="number of validation pictures")
    test: PositiveInt = Field(200, description="number of test pictures")
    size: int = Field(112, ge=32, description="edge of a picture in pixels")
    most: int = Field(5, ge=1, le=5, description="objects of a kind in a picture at most: how far one must count")
    seed: int = Field(0, description="seed of pictures and captions")
    vocabulary: Words = VocabularyRule(min_count=2, splits="train", max_length=20)


class ConceptualDataset(Strict):
    """Conceptual Captions: web pictures with one caption each; fetch them with `recap data conceptual-download`."""

    kind: Literal["conceptual"]
    train: str = Field(description="the training TSV (caption TAB url), plain or .gz; relative to `inputs`")
    validation: str = Field(description="the public validation TSV, which is the test split; relative to `inputs`")
    images: str = Field(description="folder with the downloads `train/` and `validation/`; relative to `inputs`")
    val_pairs: PositiveInt = Field(5000, description="training pairs that are drawn as validation split")
    seed: int = Field(0, description="seed of that draw")
    vocabulary: Words = VocabularyRule()


class IuXrayDataset(Strict):
    """Indiana University chest X-rays: studies of two views, with the findings of their reports."""

    kind: Literal["iu_xray"]
    reports: str = Field(description="NLMCXR_reports.tgz, or a folder or zip of it; relative to the profile's `inputs`")
    images: list[str] = Field(description="NLMCXR_png.tgz, or folders, zips or tgz's; relative to `inputs`")
    annotations: str | None = Field(None, description="annotation of Chen et al. with their split; none: draw one")
    projections: str | None = Field(None, description="indiana_projections.csv, which tells frontal from lateral views")
    split_seed: int = Field(0, description="seed of a split that is drawn, 7 : 1 : 2")
    views: PositiveInt = Field(2, description="pictures of a study, where the split is drawn; fewer: left out")
    max_missing: int = Field(10, ge=0, description="studies that may be left out because a picture is missing")
    vocabulary: Words = VocabularyRule(min_count=3, splits="train", max_length=60)


Dataset = Annotated[
    CocoDataset | ConceptualDataset | IuXrayDataset | KarpathyDataset | ScenesDataset,
    Field(discriminator="kind"),
]


class Subset(Strict):
    """How much of the training split is used; ``full`` is {fraction: 1}."""

    fraction: float = Field(1.0, gt=0, le=1, description="share of the training pairs or images")
    unit: Literal["pair", "image"] = Field("pair", description="draw single captions, or images with all captions")
