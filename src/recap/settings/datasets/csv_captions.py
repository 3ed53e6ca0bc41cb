"""Captions in a CSV file."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from recap.settings.base import Strict
from recap.settings.datasets import DATASETS, DatasetConfig
from recap.settings.outside import OutsideFile


class Shares(Strict):
    """Shares of the images that a random split gives to each part."""

    train: float = Field(gt=0, lt=1)
    val: float = Field(gt=0, lt=1)
    test: float = Field(gt=0, lt=1)
    seed: int = Field(0, description="seed of the random split")

    @model_validator(mode="after")
    def _sum_is_one(self) -> Shares:
        total = self.train + self.val + self.test
        if not math.isclose(total, 1, abs_tol=1e-6):
            raise ValueError(f"the shares train, val and test sum to {total:g} instead of 1; correct them")
        return self


@DATASETS.register
class CsvDataset(DatasetConfig):
    """Captions in a CSV file: one caption a row, in the columns file, split and caption."""

    reader: ClassVar[str] = "recap.data.datasets.csv_captions:build"

    kind: Literal["csv"]
    captions: OutsideFile = Field(description="the CSV; relative to the profile's `inputs`")
    images: list[OutsideFile] = Field(
        description="folders or zips with the pictures; relative to the profile's `inputs`"
    )
    split: Shares | None = Field(None, description="draw a random split, in place of the column `split`")
