"""IU X-ray."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, PositiveInt

from recap.settings.base import neutral
from recap.settings.datasets import DATASETS, PICTURES, DatasetConfig
from recap.settings.outside import OutsideFile
from recap.settings.vocabulary import VocabularyConfig, VocabularyRule

STUDIES = 2_952  # of the split of Chen et al., without the three whose pictures are missing


@DATASETS.register
class IuXrayDataset(DatasetConfig):
    """Indiana University chest X-rays: studies of two views, with the findings of their reports."""

    reader: ClassVar[str] = "recap.data.datasets.iu_xray.reader:build"
    products: ClassVar[tuple[str, ...]] = (PICTURES, "studies.csv", "counts.md")
    of_captions: ClassVar[tuple[str, ...]] = ("vocabulary", "max_words")

    kind: Literal["iu_xray"]
    reports: OutsideFile = Field(
        description="NLMCXR_reports.tgz, or a folder or zip of it; relative to the profile's `inputs`"
    )
    images: list[OutsideFile] = Field(description="NLMCXR_png.tgz, or folders, zips or tgz's; relative to `inputs`")
    annotations: OutsideFile | None = Field(
        None, description="annotation of Chen et al. with their split; none: draw one"
    )
    projections: OutsideFile | None = Field(
        None, description="indiana_projections.csv, which tells frontal from lateral views"
    )
    split_seed: int = Field(0, description="seed of a split that is drawn, 7 : 1 : 2")
    views: PositiveInt = Field(2, description="pictures per study, where the split is drawn; fewer: left out")
    max_missing: int = Field(10, ge=0, description="studies that may be left out because a picture is missing")
    max_words: PositiveInt | None = neutral(
        None, description="words of a report that a model learns; for byte pairs, which `vocabulary` cuts by pieces"
    )
    vocabulary: VocabularyConfig = VocabularyRule(min_count=3, splits="train", max_length=60)

    def pictures_per_image(self) -> int:
        """Return how many views a study has."""
        return self.views
