"""Box crops: each box of a store is cut out of its picture and encoded by a timm model, one vector per box."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from recap.core.device import select_device
from recap.core.errors import ConfigError, FeatureError
from recap.features.ahead import alike
from recap.features.backbones import TimmEncoder
from recap.features.extraction import ExtractionJob, Pictures, extract, weights_file
from recap.features.origins import of_store
from recap.features.records import REGION, ImageFeatures
from recap.features.store import FeatureStore
from recap.settings.features import CropFeatures

if TYPE_CHECKING:
    from PIL.Image import Image


def extract_crops(spec: CropFeatures, job: ExtractionJob) -> None:
    """Write the store; ``threads`` pictures are decoded and cut at a time."""
    if job.boxes is None:
        raise ConfigError("kind 'crops' cuts out the boxes of another store: say which with --boxes")
    pictures, boxes = Pictures.find(job), FeatureStore(job.boxes)
    boxes.require(pictures.views)
    boxes.column([int(boxes.ids[0])], "boxes")  # says now that the store has none
    device = select_device(job.device)
    encoder = CropEncoder(spec, weights=weights_file(spec, job), device=device, boxes=boxes)
    extract(spec, job, encoder, pictures, origins=of_store(boxes, pictures.origins))


@dataclass(frozen=True)
class Cut:
    """The boxes of one picture, cut out of it."""

    image_id: int
    size: tuple[int, int]
    boxes: np.ndarray  # [N, 4]
    crops: np.ndarray  # uint8 [N, edge, edge, 3]


class CropEncoder(TimmEncoder):
    """A timm model that turns boxes of pictures into vectors."""

    streams = (REGION,)
    spec: CropFeatures

    def __init__(
        self, spec: CropFeatures, *, weights: Path | None, device: torch.device, boxes: FeatureStore | None = None
    ) -> None:
        """Build the model; ``boxes`` is the store with the boxes of the pictures that it prepares."""
        if spec.embedding == "projected" and "clip" not in spec.backbone:
            raise ConfigError(
                f"{spec.backbone}: its head gives classes, no projected embedding; set `embedding: pooled`"
            )
        super().__init__(spec, weights=weights, device=device)
        self._boxes = boxes
        if boxes is not None:
            self.attributes = self.described({}, boxes_hash=boxes.made_by())

    def prepare(self, image_id: int, views: Sequence[Image]) -> Cut:
        """Cut the boxes of a picture out of it."""
        assert self._boxes is not None
        image = super().prepare(image_id, views).image
        return self.cut(image_id, image, own_boxes(self._boxes, image_id, image.size))

    def cut(self, image_id: int, picture: Image, boxes: np.ndarray) -> Cut:
        """Cut boxes [N, 4] out of a picture, each scaled to a square."""
        edge = self.spec.image_size
        crops = np.empty((len(boxes), edge, edge, 3), np.uint8)
        for place, box in enumerate(boxes):
            part = picture.crop(pixels(box, picture.size, margin=self.spec.margin))
            side = min(part.size)
            middle: tuple[float, float, float, float] = (0, 0, part.width, part.height)
            if self.spec.crop == "centre":  # the shorter side is scaled, and the middle of the longer one is taken
                left, top = (part.width - side) / 2, (part.height - side) / 2
                middle = (left, top, left + side, top + side)
            crops[place] = np.asarray(part.resize((edge, edge), self.resample, box=middle))
        return Cut(image_id, picture.size, boxes, crops)

    def batches(self, items: Iterator[Cut]) -> Iterator[list[Cut]]:
        """Yield pictures until they have ``batch_size`` crops."""
        return alike(items, self.spec.batch_size, weight=lambda cut: len(cut.crops))

    def __call__(self, items: Sequence[Cut]) -> Iterator[ImageFeatures]:
        """Yield the features of several pictures, whose crops are encoded together."""
        crops = np.concatenate([cut.crops for cut in items])
        parts = np.array_split(crops, -(-len(crops) // self.spec.batch_size))
        vectors = torch.cat([self.vectors(torch.from_numpy(part)) for part in parts]).numpy()
        bounds = np.cumsum([len(cut.crops) for cut in items])[:-1]
        for cut, own in zip(items, np.split(vectors, bounds), strict=True):
            yield ImageFeatures(cut.image_id, cut.size, {REGION: own, f"{REGION}/boxes": cut.boxes})

    @torch.inference_mode()
    def vectors(self, crops: Tensor) -> Tensor:
        """Return vectors float32 [B, dim] on the CPU for crops uint8 [B, edge, edge, 3]."""
        inputs = self.normalised(crops)
        with self.half():
            maps = self.model.forward_features(inputs)
            vectors: Tensor = self.model.forward_head(maps, pre_logits=self.spec.embedding == "pooled")
        return vectors.float().cpu()


def own_boxes(store: FeatureStore, image_id: int, size: tuple[int, int]) -> np.ndarray:
    """Return the boxes [N, 4] of one picture, in its own pixels: those of a resized copy are scaled."""
    boxes: np.ndarray = store.column([image_id], "boxes")[0].numpy()
    stored = store.sizes([image_id])[0]
    if not stored.any() or tuple(stored) == size:  # a store that does not say the size is taken at its word
        return boxes
    scale = np.asarray(size) / stored
    if abs(scale[0] / scale[1] - 1) > 0.02:
        raise FeatureError(
            f"image id {image_id}: the picture has {size[0]} x {size[1]} pixels, but the boxes in {store.path} are "
            f"from one of {stored[0]} x {stored[1]}; use the pictures that the boxes were made from"
        )
    return (boxes * np.tile(scale, 2)).astype(np.float32)


def pixels(box: np.ndarray, size: tuple[int, int], *, margin: float = 0.0) -> tuple[int, int, int, int]:
    """Return the whole pixels that a box covers, widened by a share of its sides: inside the picture and at least one.

    Box and pixels are left, top, right, bottom; the size is width and height of the picture.
    """
    width, height = (float(box[2] - box[0]) * margin, float(box[3] - box[1]) * margin)
    left = min(max(int(np.floor(box[0] - width)), 0), size[0] - 1)
    top = min(max(int(np.floor(box[1] - height)), 0), size[1] - 1)
    right = max(min(int(np.ceil(box[2] + width)), size[0]), left + 1)
    bottom = max(min(int(np.ceil(box[3] + height)), size[1]), top + 1)
    return left, top, right, bottom
