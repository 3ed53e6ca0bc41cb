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
from recap.features.attributes import describe
from recap.features.backbones import TimmEncoder
from recap.features.extraction import ExtractionJob, Pictures, extract
from recap.features.origins import FromStore
from recap.features.records import REGION, ImageFeatures
from recap.features.store import FeatureStore
from recap.settings.features import CropFeatures

if TYPE_CHECKING:
    from PIL.Image import Image

_CODE = ("recap.features.crops",)


def extract_crops(spec: CropFeatures, job: ExtractionJob) -> None:
    """Write one vector for each box of each picture of a corpus; an interrupted run is taken up again."""
    if job.boxes is None:
        raise ConfigError("kind 'crops' cuts out the boxes of another store: say which with --boxes")
    pictures = Pictures.find(job)
    stored = FeatureStore(job.boxes)
    stored.require(pictures.views)
    stored.column([int(stored.ids[0])], "boxes")
    path = None if spec.weights in ("pretrained", "random") else job.inputs / spec.weights
    encoder = CropEncoder(spec, weights=path, device=select_device(job.device))

    def load(image_id: int) -> Cut:
        _, picture = pictures.load(image_id)
        return encoder.cut(image_id, picture, own_boxes(stored, image_id, picture.size))

    def batch(cuts: Iterator[Cut]) -> Iterator[list[Cut]]:
        waiting: list[Cut] = []
        for cut in cuts:
            waiting.append(cut)
            if sum(len(each.crops) for each in waiting) >= spec.batch_size:
                yield waiting
                waiting = []
        if waiting:
            yield waiting

    extract(
        spec,
        job,
        encoder.encode,
        batch,
        ids=list(pictures.views),
        origins=FromStore(stored, pictures.origins),
        load=load,
        attributes=encoder.attributes(stored.made_by()),
        code=_CODE,
        streams=(REGION,),
    )


@dataclass(frozen=True)
class Cut:
    """The crops uint8 [N, edge, edge, 3] of one picture."""

    image_id: int
    size: tuple[int, int]
    boxes: np.ndarray
    crops: np.ndarray


class CropEncoder(TimmEncoder):
    """A timm model that turns boxes of pictures into vectors."""

    def __init__(self, spec: CropFeatures, *, weights: Path | None, device: torch.device) -> None:
        if spec.embedding == "projected" and "clip" not in spec.backbone:
            raise ConfigError(
                f"{spec.backbone}: its head gives classes, no projected embedding; set `embedding: pooled`"
            )
        super().__init__(spec, weights=weights, device=device)
        self.spec = spec

    def attributes(self, boxes: str) -> dict[str, str]:
        """Return what the store says of the extractor; ``boxes`` is the hash of what made the boxes."""
        seen = {"interpolation": self.interpolation, "mean": self.mean, "std": self.sd}
        made = {"weights_sha256": self.weights_sha256, "made_with": self.made_with}
        return describe(self.spec, **made, preprocessing=seen, boxes_hash=boxes)

    def cut(self, image_id: int, picture: Image, boxes: np.ndarray) -> Cut:
        """Cut boxes [N, 4] out of a picture, each scaled to a square."""
        edge = self.spec.image_size
        crops = np.empty((len(boxes), edge, edge, 3), np.uint8)
        for place, box in enumerate(boxes):
            part = picture.crop(pixels(box, picture.size, margin=self.spec.margin))
            crops[place] = np.asarray(_square(part, edge, squash=self.spec.crop == "squash", resample=self.resample))
        return Cut(image_id, picture.size, boxes, crops)

    def encode(self, cuts: Sequence[Cut]) -> Iterator[ImageFeatures]:
        """Yield the features of several pictures, whose crops are encoded together."""
        crops = np.concatenate([cut.crops for cut in cuts])
        parts = [self(torch.from_numpy(part)) for part in np.array_split(crops, -(-len(crops) // self.spec.batch_size))]
        vectors = torch.cat(parts).numpy()
        bounds = np.cumsum([0, *(len(cut.crops) for cut in cuts)])
        for cut, start, stop in zip(cuts, bounds[:-1], bounds[1:], strict=True):
            arrays = {REGION: vectors[start:stop], f"{REGION}/boxes": cut.boxes}
            yield ImageFeatures(cut.image_id, cut.size, arrays)

    @torch.inference_mode()
    def __call__(self, crops: Tensor) -> Tensor:
        """Return vectors float32 [B, dim] on the CPU for crops uint8 [B, edge, edge, 3]."""
        with self.mixed():
            maps = self.model.forward_features(self.normalized(crops))
            vectors = self.model.forward_head(maps, pre_logits=self.spec.embedding == "pooled")
        return vectors.float().cpu()


def own_boxes(store: FeatureStore, image_id: int, size: tuple[int, int]) -> np.ndarray:
    """Return the boxes [N, 4] of one picture, in its own pixels.

    Boxes that were made on a resized copy are scaled; a store that does not say the size is taken at its word.
    """
    boxes: np.ndarray = store.column([image_id], "boxes")[0].numpy()
    before = store.sizes([image_id])[0]
    if not before.any() or tuple(before) == size:
        return boxes
    scale = np.asarray(size) / before
    if abs(scale[0] / scale[1] - 1) > 0.02:
        raise FeatureError(
            f"image id {image_id}: the picture has {size[0]} x {size[1]} pixels, but the boxes in {store.path} are "
            f"from one of {before[0]} x {before[1]}; use the pictures that the boxes were made from"
        )
    return (boxes * np.tile(scale, 2)).astype(np.float32)


def pixels(box: np.ndarray, size: tuple[int, int], *, margin: float = 0.0) -> tuple[int, int, int, int]:
    """Return the whole pixels that a box covers, inside the picture and at least one.

    ``margin`` says by how much of its sides the box is widened, all around.
    """
    width, height = (float(box[2] - box[0]) * margin, float(box[3] - box[1]) * margin)
    left = min(max(int(np.floor(box[0] - width)), 0), size[0] - 1)
    top = min(max(int(np.floor(box[1] - height)), 0), size[1] - 1)
    right = max(min(int(np.ceil(box[2] + width)), size[0]), left + 1)
    bottom = max(min(int(np.ceil(box[3] + height)), size[1]), top + 1)
    return left, top, right, bottom


def _square(part: Image, edge: int, *, squash: bool, resample: int) -> Image:
    """Scale a crop to a square: as a whole, or by its shorter side, of which the middle is kept."""
    if squash:
        return part.resize((edge, edge), resample)
    side = min(part.size)
    left, top = (part.width - side) / 2, (part.height - side) / 2
    return part.resize((edge, edge), resample, box=(left, top, left + side, top + side))
