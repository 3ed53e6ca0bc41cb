"""Microsoft COCO."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from recap.settings.datasets import DATASETS, DatasetConfig
from recap.settings.datasets.counts import Counts
from recap.settings.outside import OutsideFile
from recap.settings.vocabulary import VocabularyConfig, VocabularyRule

# Karpathy's split of the 82,783 training and 40,504 validation pictures of 2014.
IMAGES = {"train": 113_287, "val": 5_000, "test": 5_000}
CAPTIONS = 616_767


@DATASETS.register
class CocoDataset(DatasetConfig):
    """Microsoft COCO's captions: Karpathy's JSON, or the plain annotations and Karpathy's two lists of pictures."""

    reader: ClassVar[str] = "recap.data.datasets.coco:build"
    of_captions: ClassVar[tuple[str, ...]] = ("vocabulary", "annotations", "val_list", "test_list", "partial")

    kind: Literal["coco"]
    annotations: list[OutsideFile] = Field(
        min_length=1,
        description="captions_*.json, or zips that hold them; without lists: dataset_coco.json or a zip of it",
    )
    val_list: OutsideFile | None = Field(None, description="Karpathy's validation pictures, one line 'path id' each")
    test_list: OutsideFile | None = Field(
        None, description="Karpathy's test pictures; every other picture is for training"
    )
    images: list[OutsideFile] = Field(
        description="folders or zips with the pictures, under their names of 2014 or of 2017"
    )
    partial: bool = Field(False, description="the annotations cover a part of COCO: no count is asserted")
    vocabulary: VocabularyConfig = VocabularyRule(splits="all")

    @model_validator(mode="after")
    def _lists_go_together(self) -> CocoDataset:
        if (self.val_list is None) != (self.test_list is None):
            raise ValueError("val_list and test_list go together")
        if self.val_list is None and len(self.annotations) != 1:
            raise ValueError("several annotations need val_list and test_list")
        return self

    def known_counts(self) -> Counts | None:
        """Return the published counts, which the reader asserts, unless a part is meant."""
        return self.counts if self.partial else Counts(**IMAGES, captions=CAPTIONS)
