"""Box crops: each box of a store is cut out of its picture and encoded by a timm model, one vector per box."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from recap.core.device import half_precision, select_device
from recap.core.errors import ConfigError, FeatureError
from recap.core.hashing import sha256_file
from recap.features.attributes import describe
from recap.features.backbones import create, timm_library
from recap.features.extraction import Pictures, job_hash
from recap.features.job import ExtractionJob
from recap.features.origins import FromStore
from recap.features.pictures import in_order, resampling
from recap.features.records import REGION, ImageFeatures
from recap.features.store import FeatureStore
from recap.features.weights import load_strictly, weights_hash
from recap.features.write import build_store
from recap.settings.features import CropFeatures

if TYPE_CHECKING:
    from PIL.Image import Image

_CODE = ("recap.features.crops", "recap.features.backbones")


def extract_crops(spec: CropFeatures, job: ExtractionJob) -> None:
    """Write one vector for each box of each picture of a corpus; an interrupted run is taken up again.

    Args:
        spec: backbone, embedding and crop policy.
        job: the pictures and the store of the boxes; ``threads`` pictures are decoded and cut at a time.
    """
    if job.boxes is None:
        raise ConfigError("kind 'crops' cuts out the boxes of another store: say which with --boxes")
    pictures = Pictures.find(job)
    known = FeatureStore(job.boxes)
    known.require(pictures.views)
    known.column([int(known.ids[0])], "boxes")
    path = None if spec.weights in ("pretrained", "random") else job.inputs / spec.weights
    encoder = CropEncoder(spec, weights=path, device=select_device(job.device))
    attributes = encoder.attributes(known.made_by())

    def load(image_id: int) -> _Cut:
        picture = pictures.open(image_id)
        return encoder.cut(image_id, picture, own_boxes(known, image_id, picture.size))

    def extract(groups: list[list[int]]) -> Iterator[ImageFeatures]:
        # A batch stays inside its group, so that its content does not depend on where an interrupted run went on.
        starts = {group[0] for group in groups}
        waiting: list[_Cut] = []
        for cut in in_order(load, (image_id for group in groups for image_id in group), threads=job.threads):
            if waiting and (cut.image_id in starts or sum(len(c.crops) for c in waiting) >= spec.batch_size):
                yield from encoder.encode(waiting)
                waiting = []
            waiting.append(cut)
        yield from encoder.encode(waiting)

    build_store(
        **job.target(),
        ids=list(pictures.views),
        shard_size=spec.shard_size,
        dtype=spec.dtype,
        job=job_hash(spec, attributes, _CODE),
        attributes=attributes,
        extract=extract,
        streams=(REGION,),
        origins=FromStore(known, pictures.origins),
    )


@dataclass(frozen=True)
class _Cut:
    """The crops uint8 [N, edge, edge, 3] of one picture."""

    image_id: int
    size: tuple[int, int]
    boxes: np.ndarray
    crops: np.ndarray


class CropEncoder:
    """A timm model that turns boxes of pictures into vectors."""

    def __init__(self, spec: CropFeatures, *, weights: Path | None, device: torch.device) -> None:
        """Build the model and load its weights."""
        if spec.embedding == "projected" and "clip" not in spec.backbone:
            raise ConfigError(
                f"{spec.backbone}: its head gives classes, no projected embedding; set `embedding: pooled`"
            )
        self.spec, self.device = spec, device
        self.precision = half_precision(device)
        model = create(spec)
        if weights is not None:
            load_strictly(model, weights, backbone=spec.backbone)
        self.weights_sha256 = weights_hash(model) if weights is None else sha256_file(weights)
        self.model: Any = model.eval().to(device).to(memory_format=torch.channels_last)
        data = timm_library().data.resolve_model_data_config(model)
        self.mean, self.sd, self.interpolation = list(data["mean"]), list(data["std"]), str(data["interpolation"])
        self._resample = resampling(self.interpolation)

    def attributes(self, boxes: str) -> dict[str, str]:
        """Return what the store says of the extractor; ``boxes`` is the hash of what made the boxes."""
        seen = {"interpolation": self.interpolation, "mean": self.mean, "std": self.sd}
        made_with = f"timm {timm_library().__version__}, torch {torch.__version__}, {self.device.type}"
        return describe(
            self.spec, weights_sha256=self.weights_sha256, made_with=made_with, preprocessing=seen, boxes_hash=boxes
        )

    def cut(self, image_id: int, picture: Image, boxes: np.ndarray) -> _Cut:
        """Cut boxes [N, 4] out of a picture, each scaled to a square."""
        edge = self.spec.image_size
        crops = np.empty((len(boxes), edge, edge, 3), np.uint8)
        for place, box in enumerate(boxes):
            part = picture.crop(pixels(box, picture.size, margin=self.spec.margin))
            crops[place] = np.asarray(_square(part, edge, squash=self.spec.crop == "squash", resample=self._resample))
        return _Cut(image_id, picture.size, boxes, crops)

    def encode(self, cuts: Sequence[_Cut]) -> Iterator[ImageFeatures]:
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
        mean, sd = (torch.tensor(values, device=self.device).view(1, 3, 1, 1) for values in (self.mean, self.sd))
        inputs = (crops.to(self.device).permute(0, 3, 1, 2).float() / 255 - mean) / sd
        with torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32):
            found = self.model.forward_features(inputs)
            vectors = self.model.forward_head(found, pre_logits=self.spec.embedding == "pooled")
        return vectors.float().cpu()


def own_boxes(store: FeatureStore, image_id: int, size: tuple[int, int]) -> np.ndarray:
    """Return the boxes [N, 4] of one picture, in its own pixels.

    Boxes that were made on a resized copy are scaled; a store that does not say the size is taken at its word.
    """
    boxes: np.ndarray = store.column([image_id], "boxes")[0].numpy()
    known = store.sizes([image_id])[0]
    if not known.any() or tuple(known) == size:
        return boxes
    scale = np.asarray(size) / known
    if abs(scale[0] / scale[1] - 1) > 0.02:
        raise FeatureError(
            f"image id {image_id}: the picture has {size[0]} x {size[1]} pixels, but the boxes in {store.path} are "
            f"from one of {known[0]} x {known[1]}; use the pictures that the boxes were made from"
        )
    return (boxes * np.tile(scale, 2)).astype(np.float32)


def pixels(box: np.ndarray, size: tuple[int, int], *, margin: float = 0.0) -> tuple[int, int, int, int]:
    """Return the whole pixels that a box covers, inside the picture and at least one.

    Args:
        box: left, top, right, bottom.
        size: width and height of the picture.
        margin: how much of its sides the box is widened by, all around.
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
