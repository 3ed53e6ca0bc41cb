"""Features of timm backbones: maps pooled to a square grid, or one vector per box."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import ImageOps
from torch import Tensor, nn
from torch.nn import functional

from recap.core.device import select_device
from recap.core.errors import ConfigError, FeatureError
from recap.core.threads import batched_by_key
from recap.features.backbones import TimmEncoder
from recap.features.extraction import ExtractionJob, Pictures, encoded, extract, weights_file
from recap.features.records import REGION, ImageFeatures
from recap.features.store import CHANNEL_SCALE, FeatureStore
from recap.settings.features import CropFeatures, GridFeatures

if TYPE_CHECKING:
    from PIL.Image import Image

STANDARDISED_OVER = 256  # training pictures over which features are standardized


def extract_grid(spec: GridFeatures, job: ExtractionJob) -> None:
    """Write the store; ``threads`` batches are decoded and computed at a time.

    Where it is asked for, and with random weights, which have no natural scale, channels are
    brought to mean 0 and standard deviation 1 over some training pictures.
    """
    device = select_device(job.device)
    pictures = Pictures.find(job)
    backbone = Backbone(spec, weights=weights_file(spec, job), device=device)
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # the parallel work is left to our own threads
    try:
        if spec.standardises():
            _standardise(backbone, pictures, threads=job.threads)
        extract(spec, job, backbone, pictures)
    finally:
        torch.set_num_threads(before)


def _standardise(backbone: Backbone, pictures: Pictures, *, threads: int) -> None:
    """Set the scale of the channels, on which all features depend."""
    views = pictures.corpus.views()
    training = pictures.corpus.image_ids("train")
    ids = training[:: -(-len(training) // STANDARDISED_OVER)]
    sample = replace(pictures, views={image_id: views[image_id] for image_id in ids})
    rows = np.concatenate(
        [record.values for record in encoded(backbone, sample, [ids], threads=threads)]
    )
    backbone.scale = ChannelScale.of(rows.reshape(-1, backbone.spec.grid**2, rows.shape[1]))


@dataclass(frozen=True)
class Squares:
    """The views of an image as a backbone reads them."""

    image_id: int
    size: tuple[int, int]  # width and height of the first view
    pixels: np.ndarray  # uint8 [views, edge, edge, 3]


class Backbone(TimmEncoder):
    """A timm model that turns pictures into rows of features.

    A picture is resized to ``image_size`` x ``image_size`` without regard to its aspect and without
    a crop, because captions speak of the whole picture, and normalised as the model's timm config
    says. Its map is averaged to ``grid`` x ``grid`` cells, which become rows in raster order (left
    to right, then down). An image with several views has the rows of the first view, then those of
    the next.
    """

    side_by_side = True
    spec: GridFeatures

    def __init__(self, spec: GridFeatures, *, weights: Path | None, device: torch.device) -> None:
        super().__init__(spec, weights=weights, device=device)
        self.scale: ChannelScale | None = None  # None leaves the channels as they are
        if spec.out_index is not None:
            has_maps = hasattr(self.model, "forward_intermediates")
            stages = range(len(self.model.feature_info) if has_maps else 0)
            if spec.out_index not in stages:
                raise ConfigError(
                    f"out_index: {spec.backbone} has the stages {list(stages)}, not "
                    f"{spec.out_index}; choose one of them, or leave `out_index` out"
                )

    @property
    def attributes(self) -> dict[str, str]:  # type: ignore[override]
        """What a store says of it."""
        over = {"standardised_over": self.scale.pictures} if self.scale else {}
        resize = {"resize": "squashed to image_size x image_size, no crop"}
        described = self.described(
            resize, precision=str(self.precision).removeprefix("torch."), **over
        )
        return {**described, CHANNEL_SCALE: self.scale.text()} if self.scale else described

    def prepare(self, image_id: int, views: Sequence[Image]) -> Squares:
        """Return the views of an image, scaled to squares."""
        edge = self.spec.image_size
        # Pillow returns a picture of this size as it is
        squares = [np.asarray(view.resize((edge, edge), self.resample)) for view in views]
        return Squares(image_id, views[0].size, np.stack(squares))

    def batches(self, items: Iterator[Squares]) -> Iterator[list[Squares]]:
        """Yield ``batch_size`` images at a time."""
        return batched_by_key(items, self.spec.batch_size)

    def __call__(self, items: Sequence[Squares]) -> Iterator[ImageFeatures]:
        """Yield the features of images."""
        pixels = torch.from_numpy(np.concatenate([item.pixels for item in items]))
        parts = self.rows(pixels).split([len(item.pixels) for item in items])
        for item, own in zip(items, parts, strict=True):
            yield ImageFeatures(item.image_id, item.size, own.flatten(0, 1).numpy())

    @torch.inference_mode()
    def rows(self, pictures: Tensor) -> Tensor:
        """Return pictures uint8 [B, edge, edge, 3] -> float32 [B, grid * grid, dim] (CPU)."""
        with self.half():
            maps = self.maps(pictures).float()
        rows = maps.flatten(2).transpose(1, 2).contiguous().cpu()
        return self.scale(rows) if self.scale else rows

    def maps(self, pictures: Tensor) -> Tensor:
        """Return maps [B, C, grid, grid] for pictures uint8 [B, edge, edge, 3].

        A gradient flows.
        """
        inputs = self.normalised(pictures)
        grid = self.spec.grid
        if self.spec.out_index is None:
            maps = as_maps(
                self.model.forward_features(inputs), model=self.model, backbone=self.spec.backbone
            )
        else:
            (maps,) = self.model.forward_intermediates(
                inputs,
                indices=[self.spec.out_index],
                intermediates_only=True,
                stop_early=True,
                output_fmt="NCHW",
            )
        if min(maps.shape[-2:]) < grid:
            raise ConfigError(
                f"{self.spec.backbone}: gives maps of {maps.shape[-2]} x {maps.shape[-1]} cells, "
                f"too coarse for `grid: {grid}`; use a larger image_size, an earlier "
                "out_index or a smaller grid"
            )
        # A mean over one cell is that cell;
        # torch's pooling would take a tenth of a training step to say so.
        pools = maps.shape[-2:] != (grid, grid)
        return functional.adaptive_avg_pool2d(maps, grid) if pools else maps


def as_maps(features: Tensor, *, model: nn.Module, backbone: str) -> Tensor:
    """Return what timm's ``forward_features`` gave as maps [B, C, H, W].

    Tokens [B, prefix + H * W, C] lose their prefix (class and register tokens); maps [B, H, W, C]
    are turned.
    """
    if features.ndim == 4:
        is_last = str(getattr(model, "output_fmt", "NCHW")) == "NHWC"
        return features.permute(0, 3, 1, 2) if is_last else features
    tokens = features[:, getattr(model, "num_prefix_tokens", 0) :]
    side = math.isqrt(tokens.shape[1])
    if tokens.ndim != 3 or side * side != tokens.shape[1]:
        raise ConfigError(
            f"{backbone}: gives features of shape {list(features.shape)}, no square grid; use "
            "another backbone"
        )
    return tokens.transpose(1, 2).unflatten(2, (side, side))


@dataclass(frozen=True)
class ChannelScale:
    """Brings channels to one scale: (values - mean) * factor has mean 0
    and standard deviation 1 over some pictures."""

    mean: Tensor  # of each channel, float32 [C]
    factor: Tensor  # one over the standard deviation of each channel, float32 [C]
    pictures: int  # over how many

    @staticmethod
    def of(values: np.ndarray) -> ChannelScale:
        """Return the scale of values [pictures, cells, C].

        A channel that never moves gets factor 0.
        """
        mean = values.mean((0, 1), dtype=np.float64)
        sd = values.std((0, 1), dtype=np.float64)
        moves = sd > 1e-6 * np.abs(mean)  # what moves less is rounding, which is not amplified
        factor = np.divide(1.0, sd, out=np.zeros_like(sd), where=moves & (sd > 0))
        return ChannelScale(
            torch.from_numpy(mean).float(), torch.from_numpy(factor).float(), len(values)
        )

    @staticmethod
    def of_text(text: str) -> ChannelScale:
        """Return the scale that :meth:`text` wrote; ValueError or KeyError of another text."""
        parts = json.loads(text)
        mean = np.frombuffer(base64.b64decode(parts["mean"]), "<f4")
        factor = np.frombuffer(base64.b64decode(parts["factor"]), "<f4")
        return ChannelScale(torch.tensor(mean), torch.tensor(factor), parts["pictures"])

    def __call__(self, values: Tensor) -> Tensor:
        """Return values [..., C] on this scale."""
        return (values - self.mean) * self.factor

    def text(self) -> str:
        """Return all three as JSON; the channels' numbers as base64 of little-endian float32."""
        parts = {}
        for name, numbers in (("mean", self.mean), ("factor", self.factor)):
            content = numbers.numpy().astype("<f4").tobytes()
            parts[name] = base64.b64encode(content).decode()
        return json.dumps({"pictures": self.pictures, **parts})


# ---- crops: each box of a store is cut out of its picture


def extract_crops(spec: CropFeatures, job: ExtractionJob) -> None:
    """Write the store; ``threads`` pictures are decoded and cut at a time."""
    if job.boxes is None:
        raise ConfigError(
            "kind 'crops' cuts out the boxes of another store: say which with --boxes"
        )
    pictures = Pictures.find(job)
    boxes = FeatureStore(job.boxes)
    boxes.require(pictures.views)
    boxes.column([int(boxes.ids[0])], "boxes")  # says now that the store has none
    device = select_device(job.device)
    encoder = CropEncoder(spec, weights=weights_file(spec, job), device=device, boxes=boxes)
    extract(spec, job, encoder, pictures, stores=[job.boxes])


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
        self,
        spec: CropFeatures,
        *,
        weights: Path | None,
        device: torch.device,
        boxes: FeatureStore | None = None,
    ) -> None:
        """Build the model; ``boxes`` is the store with the boxes of its pictures."""
        if spec.embedding == "projected" and "clip" not in spec.backbone:
            raise ConfigError(
                f"{spec.backbone}: its head gives classes, no projected embedding; set `embedding: "
                "pooled`"
            )
        super().__init__(spec, weights=weights, device=device)
        self._boxes = boxes
        if boxes is not None:
            self.attributes = self.described({}, boxes_hash=boxes.extractor_hash())

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
            # the shorter side is scaled, and the middle of the longer one is taken
            if self.spec.crop == "centre":
                crops[place] = np.asarray(ImageOps.fit(part, (edge, edge), self.resample))
            else:
                crops[place] = np.asarray(part.resize((edge, edge), self.resample))
        return Cut(image_id, picture.size, boxes, crops)

    def batches(self, items: Iterator[Cut]) -> Iterator[list[Cut]]:
        """Yield pictures until they have ``batch_size`` crops."""
        return batched_by_key(items, self.spec.batch_size, weight=lambda cut: len(cut.crops))

    def __call__(self, items: Sequence[Cut]) -> Iterator[ImageFeatures]:
        """Yield the features of several pictures, whose crops are encoded together."""
        crops = torch.from_numpy(np.concatenate([cut.crops for cut in items]))
        parts = crops.tensor_split(-(-len(crops) // self.spec.batch_size))
        vectors = torch.cat([self.vectors(part) for part in parts])
        of_pictures = vectors.split([len(cut.crops) for cut in items])
        for cut, own in zip(items, of_pictures, strict=True):
            arrays = {REGION: own.numpy(), f"{REGION}/boxes": cut.boxes}
            yield ImageFeatures(cut.image_id, cut.size, arrays)

    @torch.inference_mode()
    def vectors(self, crops: Tensor) -> Tensor:
        """Return vectors float32 [B, dim] on the CPU for crops uint8 [B, edge, edge, 3]."""
        inputs = self.normalised(crops)
        with self.half():
            maps = self.model.forward_features(inputs)
            vectors: Tensor = self.model.forward_head(
                maps, pre_logits=self.spec.embedding == "pooled"
            )
        return vectors.float().cpu()


def own_boxes(store: FeatureStore, image_id: int, size: tuple[int, int]) -> np.ndarray:
    """Return the boxes [N, 4] of one picture, in its own pixels; a resized copy's are scaled."""
    boxes: np.ndarray = store.column([image_id], "boxes")[0].numpy()
    stored = store.sizes([image_id])[0]
    # a store that does not say the size is taken at its word
    if not stored.any() or tuple(stored) == size:
        return boxes
    scale = np.asarray(size) / stored
    if abs(scale[0] / scale[1] - 1) > 0.02:
        raise FeatureError(
            f"image id {image_id}: the picture has {size[0]} x {size[1]} pixels, but the boxes in "
            f"{store.path} are from one of {stored[0]} x {stored[1]}; use the pictures that "
            "the boxes were made from"
        )
    return (boxes * np.tile(scale, 2)).astype(np.float32)


def pixels(
    box: np.ndarray, size: tuple[int, int], *, margin: float = 0.0
) -> tuple[int, int, int, int]:
    """Return the whole pixels that a box covers, widened by a share of its sides:
    inside the picture and at least one.

    Box and pixels are left, top, right, bottom; the size is width and height of the picture.
    """
    wider = ((box[2:] - box[:2]).astype(np.float64) * margin).astype(box.dtype)
    first = np.floor(box[:2] - wider).clip(0, np.subtract(size, 1))
    last = np.ceil(box[2:] + wider).clip(first + 1, size)
    left, top, right, bottom = map(int, (*first, *last))
    return left, top, right, bottom
