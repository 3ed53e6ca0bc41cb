"""Conceptual Captions."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from recap.settings.base import neutral
from recap.settings.datasets import DATASETS, DatasetConfig, WebPictures
from recap.settings.outside import OutsideFile

# What `recap data conceptual-download` writes beside the pictures: which of them are there.
SURVIVORS = "survivors.parquet"
# Rows of the published lists.
TRAINING_ROWS, VALIDATION_ROWS = 3_318_333, 15_840


@DATASETS.register
class ConceptualDataset(DatasetConfig):
    """Conceptual Captions: web pictures with one caption each; fetch them with `recap data conceptual-download`."""

    reader: ClassVar[str] = "recap.data.datasets.conceptual.reader:build"

    kind: Literal["conceptual"]
    train: OutsideFile = Field(description="the training TSV (caption TAB url), plain or .gz; relative to `inputs`")
    validation: OutsideFile = Field(
        description="the public validation TSV, which is the test split; relative to `inputs`"
    )
    images: OutsideFile = Field(
        description="folder with the downloads `train/` and `validation/`; relative to `inputs`"
    )
    val_pairs: PositiveInt = Field(5000, description="training pairs that are drawn as validation split")
    seed: int = Field(0, description="seed of that draw")
    min_side: NonNegativeInt = neutral(
        384,
        description="shorter side to which larger pictures are shrunk when they are fetched, in pixels; no less than "
        "what the extractors read; 0: pictures are not shrunk",
    )
    survival: float | None = neutral(
        None,
        gt=0,
        le=1,
        description="share of the training addresses that have a picture, at least: only rows that draws need are "
        "fetched, and a subset is a share of all rows; without it, all are fetched, and it is a share of the pictures",
    )

    def outside_files(self) -> list[str]:
        """Return the two TSVs and the lists of fetched pictures, in place of millions of picture files."""
        return [self.train, self.validation, *self.web_pictures()]

    def training_pictures(self) -> str:
        """Return the list of fetched pictures of the training split."""
        return f"{self.images}/train/{SURVIVORS}"

    def web_pictures(self) -> dict[str, WebPictures]:
        """Return both lists of fetched pictures, and what is fetched."""
        parts = {"train": self.train, "validation": self.validation}
        return {f"{self.images}/{part}/{SURVIVORS}": WebPictures(tsv, self.min_side) for part, tsv in parts.items()}
