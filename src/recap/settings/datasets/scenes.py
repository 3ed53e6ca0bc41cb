"""The built-in data set."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, PositiveInt

from recap.settings.datasets import DATASETS, PICTURES, DatasetConfig
from recap.settings.datasets.counts import Counts
from recap.settings.vocabulary import VocabularyConfig, VocabularyRule

CAPTIONS = 5  # of each scene


@DATASETS.register
class ScenesDataset(DatasetConfig):
    """The built-in data set: rendered scenes with captions from a seeded grammar."""

    reader: ClassVar[str] = "recap.data.datasets.scenes.build:build"
    products: ClassVar[tuple[str, ...]] = (PICTURES, "boxes.json")
    renamed_keys: ClassVar[dict[str, str]] = {"most": "max_per_kind"}

    kind: Literal["scenes"]
    train: PositiveInt = Field(2000, description="number of training pictures")
    val: PositiveInt = Field(200, description="number of validation pictures")
    test: PositiveInt = Field(200, description="number of test pictures")
    size: int = Field(112, ge=32, description="edge of a picture in pixels")
    max_per_kind: int = Field(5, ge=1, le=5, description="maximum number of objects of one kind in a picture")
    seed: int = Field(0, description="seed of pictures and captions")
    vocabulary: VocabularyConfig = VocabularyRule(min_count=2, splits="train", max_length=20)

    def known_counts(self) -> Counts:
        """Return the counts that the keys say."""
        captions = CAPTIONS * (self.train + self.val + self.test)
        return Counts(train=self.train, val=self.val, test=self.test, captions=captions)
