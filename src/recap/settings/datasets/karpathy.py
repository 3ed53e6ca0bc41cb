"""Data sets in the form of Karpathy's JSON files."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from recap.settings.datasets import DATASETS, DatasetConfig
from recap.settings.outside import Name, OutsideFile


@DATASETS.register
class KarpathyDataset(DatasetConfig):
    """A data set in Karpathy's JSON form (dataset_coco.json, dataset_flickr8k.json, dataset_flickr30k.json)."""

    reader: ClassVar[str] = "recap.data.datasets.karpathy:build"

    kind: Literal["karpathy"]
    annotations: OutsideFile = Field(description="the JSON, or a zip that holds it; relative to the profile's `inputs`")
    member: Name = Field("*.json", description="name or pattern of the JSON in a zip that holds several")
    images: list[OutsideFile] = Field(
        description="folders or zips with the pictures; relative to the profile's `inputs`"
    )
    merge_restval: bool = Field(True, description="count COCO's 'restval' images as training images")
