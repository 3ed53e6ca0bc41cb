"""Pictures of Microsoft COCO whose captions COCO's server keeps to itself."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from recap.settings.datasets import DATASETS, DatasetConfig
from recap.settings.datasets.counts import Counts
from recap.settings.outside import OutsideFile

# Pictures of the parts of COCO that the caption server scores; the part is the folder of a picture's name.
PARTS = {"val2014": 40_504, "test2014": 40_775}


class PicturesAlone(DatasetConfig):
    """A data set without references: its pictures can be captioned, and nothing can be trained on it or scored."""


@DATASETS.register
class CocoPicturesDataset(PicturesAlone):
    """Pictures and ids of COCO without captions: those that a model captions for COCO's server."""

    reader: ClassVar[str] = "recap.data.datasets.coco_pictures:build"

    kind: Literal["coco_pictures"]
    listing: OutsideFile = Field(description="image_info_test2014.json, or a zip that holds it")
    images: list[OutsideFile] = Field(description="folders or zips with the pictures, under the names of the listing")
    partial: bool = Field(False, description="the listing is a part of COCO's: no count is asserted")

    def known_counts(self) -> Counts | None:
        """Return the published number of the part that the listing's name says, unless a part of it is meant."""
        found = [number for part, number in PARTS.items() if part in self.listing]
        if self.partial or not found:
            return self.counts
        return Counts(train=0, val=0, test=found[0], captions=0)
