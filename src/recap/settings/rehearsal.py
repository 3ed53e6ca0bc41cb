"""Settings of rehearsals (``params/rehearsal.yaml``)."""

from __future__ import annotations

from typing import Any

from pydantic import Field, PositiveInt

from recap.settings.base import Strict

Changes = dict[str, dict[str, Any]]  # kind -> what its settings say in a rehearsal


class SmallNetwork(Strict):
    """A small network of timm in place of those whose names begin alike."""

    begins: str = Field(description="beginning of a backbone's name; empty: any other")
    backbone: str = Field(description="the small network")
    stride: PositiveInt = Field(description="pixels of the picture per cell of its map")


class Rehearsal(Strict):
    """Sizes of the miniatures, and what is changed in the parameter files of a rehearsal.

    Sizes of models, and seeds, are those of the scale ``rehearsal``.
    """

    train_images: PositiveInt = Field(description="training images, if subsets do not ask for more")
    subset_captions: PositiveInt = Field(description="captions of the smallest subset")
    held_out_images: PositiveInt = Field(description="images of each other split")
    epochs: PositiveInt = Field(description="of each stage of every recipe")
    images_per_batch: PositiveInt = Field(description="of each stage of every recipe")
    max_length: PositiveInt = Field(description="words of a decoded caption, of every recipe")
    networks: list[SmallNetwork] = Field(min_length=1)
    crop_pixels: PositiveInt = Field(description="edge of a crop")
    datasets: Changes = Field(default_factory=dict)
    features: Changes = Field(default_factory=dict)
    detectors: Changes = Field(description="features of detectron2, where it is installed")
    stand_ins: Changes = Field(description="the same, where it is not installed")
    studies: dict[str, Any] = Field(default_factory=dict, description="keys of every human study")
