"""What goes into a model: batches of images as named streams
of vectors, and what is known of them beforehand.

A feature store holds one or several streams: vectors of regions, of the cells of a grid, of
segments. Most models read one, `images.main`; others choose by name, `images["region"]`. B images,
N vectors (the most of any image), width F.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from recap.core.errors import DataError
from recap.data.vocabulary import AnyVocabulary


@dataclass(frozen=True)
class Stream:
    """Vectors of B images."""

    values: Tensor  #: [B, N, F] float32, zero where the mask hides
    mask: Tensor  #: [B, N], True = real
    #: [B, N, 4] left, top, right, bottom in pixels, or None if no model asked for them
    boxes: Tensor | None = None
    sizes: Tensor | None = None  #: [B, 2] width and height of the images in pixels, beside boxes


@dataclass(frozen=True)
class Images:
    """A batch of images; `streams` are named as in the feature stores, the main one first."""

    streams: Mapping[str, Stream]

    @classmethod
    def of(cls, values: Tensor, mask: Tensor) -> Images:
        """Return images with one stream: values [B, N, F], mask [B, N]."""
        return cls({"main": Stream(values, mask)})

    @property
    def main(self) -> Stream:
        """The first stream: the only one of most models."""
        return next(iter(self.streams.values()))

    @property
    def device(self) -> torch.device:
        """Where the images are."""
        return self.main.values.device

    def __getitem__(self, name: str) -> Stream:
        return self.streams[name]

    def __len__(self) -> int:
        return len(self.main.values)

    def to(self, device: torch.device) -> Images:
        """Move all streams; floating-point numbers keep their type."""
        return self.each(lambda x: x.to(device, non_blocking=True))

    def select(self, index: Tensor) -> Images:
        """Return some of the images, given by index."""
        return self.each(lambda x: x[index])

    def each(self, change: Callable[[Tensor], Tensor]) -> Images:
        """Change every tensor."""
        streams = {}
        for name, stream in self.streams.items():
            there = {key: value for key, value in vars(stream).items() if value is not None}
            streams[name] = Stream(**{key: change(value) for key, value in there.items()})
        return Images(streams)


def square_side(vectors: int) -> int:
    """Return the side of the square grid whose cells are so many vectors."""
    side = math.isqrt(vectors)
    if side * side != vectors:
        raise DataError(
            f"an image has {vectors} vectors, and the model reads them as the cells of a square "
            "grid; take features of a square grid, or a model that needs none"
        )
    return side


@dataclass(frozen=True)
class InputSpec:
    """What a model is told of its inputs before it is built."""

    sizes: Mapping[str, int]  #: F of every stream that the feature stores hold, the main one first
    vocabulary_size: int  #: V, number of ids
    #: the vocabulary itself, for models that read more of it than its size
    vocabulary: AnyVocabulary | None = None
    #: file of pretrained weights to start from, for models that have such
    weights: Path | None = None

    @property
    def main(self) -> str:
        """The name of the main stream."""
        return next(iter(self.sizes))

    @property
    def feature_size(self) -> int:
        """F of the main stream."""
        return self.sizes[self.main]
