"""What detectors of detectron2 see in pictures:
regions of a Visual Genome detector, segments of a panoptic model.

Regions: boxes, vectors (of 2048 numbers before the last layers), classes, attributes. Bottom-up
(Anderson et al. 2018): Faster R-CNN on ResNet-101; each box's 14 x 14 crop of the fourth stage goes
through the fifth and is averaged. Grid-feats (Jiang et al. 2020): ResNeXt-101 with a dilated fifth
stage; each box is one cell of 1 x 1 RoIAlign, before the two layers of width 1024; its grid is the
fifth stage without dilation (stride 32).

Segments are a second stream beside a grid. Papers call several things "segmentation" features.
``occupancy``: on the grid's cells, the share of each of COCO's 133 panoptic classes, as DIFNet's
released segmentation stream has it. ``segments``: one vector a segment, the fifth stage averaged
under its mask, with its tight box. Where a paper does not say which it took, its table says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL.Image import Resampling
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, interpolate, pad

from recap.core.threads import batched_by_key
from recap.features.backbones import ensure_torchvision
from recap.features.detectron import DETECTORS, build_released, built, load
from recap.features.extraction import Encoder, describe
from recap.features.pooled import tight_box
from recap.features.records import GRID, REGION, SEGMENT, ImageFeatures
from recap.settings.features import RegionFeatures, SegmentFeatures

if TYPE_CHECKING:
    from PIL.Image import Image

THINGS, CLASSES = 80, 133  # COCO's panoptic classes: things first, then stuff
NOTHING = -1  # class of what no segment covers
_PANOPTIC = "COCO-PanopticSegmentation/panoptic_fpn_R_101_3x.yaml"
_AT_A_TIME = 100  # regions that pass through the fifth stage together: 160 MB of its last maps


@dataclass(frozen=True)
class Resized:
    """A picture as a detector reads it: blue first, in the size that its training had."""

    image_id: int
    size: tuple[int, int]  # width and height of the picture before
    pixels: Tensor  # BGR uint8 [3, h, w]

    @staticmethod
    def of(image_id: int, picture: Image, *, short: int, long: int) -> Resized:
        """Resize an RGB picture: the shorter side to ``short``, the longer to at most ``long``."""
        scale = resize_scale(picture.size, short=short, long=long)
        width = max(1, round(picture.width * scale))
        height = max(1, round(picture.height * scale))
        resized = picture.resize((width, height), Resampling.BILINEAR)
        pixels = torch.from_numpy(np.asarray(resized)[:, :, ::-1].copy()).permute(2, 0, 1)
        return Resized(image_id, picture.size, pixels)


def resize_scale(size: tuple[int, int], *, short: int, long: int) -> float:
    """Return the factor by which a picture of this width and height is resized."""
    return min(short / min(size), long / max(size))


class _Detecting(Encoder):
    """What both share. Pictures of one size pass through the backbone together.

    They are not padded to each other: features near the edge of a padded one would differ from
    those of the same picture alone.
    """

    spec: RegionFeatures | SegmentFeatures
    model: Any

    def prepare(self, image_id: int, views: Sequence[Image]) -> Resized:
        """Return a picture as the detector reads it."""
        image = super().prepare(image_id, views).image
        return Resized.of(image_id, image, short=self.spec.short_side, long=self.spec.long_side)

    def batches(self, items: Iterator[Resized]) -> Iterator[list[Resized]]:
        """Yield up to ``batch_size`` pictures of one size."""
        return batched_by_key(items, self.spec.batch_size, key=lambda picture: picture.size)

    def inputs(self, pictures: Sequence[Resized]) -> list[dict[str, Any]]:
        """Return what a model of detectron2 is given for pictures of one size, on its device."""
        pixels = torch.stack([each.pixels for each in pictures]).to(self.model.device)
        width, height = pictures[0].size
        return [{"image": each, "height": height, "width": width} for each in pixels]


class Detector(_Detecting):
    """A detectron2 detector that turns pictures into regions."""

    spec: RegionFeatures

    def __init__(self, spec: RegionFeatures, *, weights: Path | None, device: torch.device) -> None:
        self.spec = spec
        self.model, config, digest = build_released(spec, weights=weights, device=device)
        self._dilated = "res5" in self.model.backbone.output_shape()
        self._undilated: Any = None
        import detectron2

        # the grid is the fifth stage with stride 2, of the same weights
        if spec.grid and self._dilated:
            from detectron2.modeling import build_backbone

            config.MODEL.RESNETS.RES5_DILATION = 1
            config.MODEL.RESNETS.OUT_FEATURES = ["res4", "res5"]
            self._undilated = build_backbone(config).eval().to(device)
            self._undilated.load_state_dict(self.model.backbone.state_dict())
        made_with = f"detectron2 {detectron2.__version__}, torch {torch.__version__}, {device.type}"
        self.attributes = describe(spec, weights_sha256=digest, made_with=made_with)
        self.streams = spec.streams()

    @torch.inference_mode()
    def __call__(self, pictures: Sequence[Resized]) -> list[ImageFeatures]:
        """Return regions and grid, whichever the settings ask for, of pictures of one size.

        They pass through the backbone together, and one after the other through what follows.
        """
        images = self.model.preprocess_image(self.inputs(pictures))
        needs_maps = self.spec.regions or self._undilated is None
        maps = self.model.backbone(images.tensor) if needs_maps else {}
        regions: list[tuple[Any, dict[str, Tensor]]] = [(0, {}) for _ in pictures]
        if self.spec.regions:
            regions = self._regions(images, maps, pictures[0].size)
        grids: Sequence[Tensor | None] = [None for _ in pictures]
        if self.spec.grid:  # [B, grid * grid, 2048] in raster order
            plain = self._undilated
            fifth = (
                plain(images.tensor)["res5"] if plain else self.model.roi_heads.res5(maps["res4"])
            )
            grids = list(adaptive_avg_pool2d(fifth, self.spec.grid).flatten(2).transpose(1, 2))
        records = []
        # All pictures are computed before the first is fetched, so that a GPU is waited for once.
        for picture, (count, arrays), grid in zip(pictures, regions, grids, strict=True):
            values = {name: array[: int(count)].cpu().numpy() for name, array in arrays.items()}
            # boxes of the resized picture become those of the picture, inside it
            if self.spec.regions:
                _, height, width = picture.pixels.shape
                scale = np.tile((picture.size[0] / width, picture.size[1] / height), 2)
                boxes = values[f"{REGION}/boxes"] * scale.astype(np.float32)
                edges = np.tile(np.array(picture.size, np.float32), 2)
                values[f"{REGION}/boxes"] = np.clip(boxes, 0, edges)
            if grid is not None:
                values[GRID] = grid.cpu().numpy()
            records.append(ImageFeatures(picture.image_id, picture.size, values))
        return records

    def _regions(
        self, images: Any, maps: dict[str, Tensor], size: tuple[int, int]
    ) -> list[tuple[Any, dict[str, Tensor]]]:
        """Return for each picture its number of regions and arrays that begin with them."""
        smallest = self.spec.least_side
        if smallest is None:
            smallest = DETECTORS[self.spec.detector].least_side
        scale = resize_scale(size, short=self.spec.short_side, long=self.spec.long_side)
        # Caffe counts both edge pixels of a side.
        self.model.proposal_generator.min_box_size = max(0.0, smallest * scale - 1)
        proposals, _ = self.model.proposal_generator(images, maps, None)
        regions = []
        for row, boxes in enumerate(each.proposal_boxes.tensor for each in proposals):
            # the next layers read boxes that end at the last pixel
            if self.spec.anchors == "caffe":
                height, width = images.image_sizes[0]
                last = [width - 1, height - 1, width - 1, height - 1]
                boxes = torch.minimum(boxes, boxes.new_tensor(last))
            own = {name: each[row : row + 1] for name, each in maps.items()}
            regions.append(self._classified(own, boxes))
        return regions

    def _classified(
        self, maps: dict[str, Tensor], boxes: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the regions of one picture from its maps [1, C, h, w] and its proposals [R, 4]."""
        spec = self.spec
        vectors, hidden = self._pooled(maps, boxes)
        logits, deltas = self.model.roi_heads.box_predictor(hidden)
        probabilities = logits.softmax(-1)[:, :-1]
        if spec.selection == "rising":
            own = self._regressed(boxes, deltas, probabilities.argmax(1))
            confidence, classes = rising_suppression(own, probabilities, count=spec.max_boxes)
        else:
            confidence, classes = suppressed_confidence(boxes, probabilities, overlap=spec.nms)
        order, count = choose(
            confidence, threshold=spec.score_threshold, least=spec.min_boxes, most=spec.max_boxes
        )
        classes = classes[order]
        vectors = vectors[order]
        if spec.vectors == "fc1":  # [R, 1024], the layer after them
            head = self.model.roi_heads.box_head
            vectors = head.fc_relu1(head.fc1(vectors))
        boxes = boxes[order]
        if spec.boxes == "regressed":
            boxes = self._regressed(boxes, deltas[order], classes)
        arrays = {
            REGION: vectors,
            f"{REGION}/boxes": boxes,
            f"{REGION}/classes": classes,
            f"{REGION}/class_scores": confidence[order],
        }
        if spec.attributes:
            # The class whose embedding is read may be the background, as in the released networks.
            best = self.model.attribute_head(hidden[order], logits[order].argmax(1)).max(-1)
            arrays |= {
                f"{REGION}/attributes": best.indices,
                f"{REGION}/attribute_scores": best.values,
            }
        return count, arrays

    def _pooled(self, maps: dict[str, Tensor], boxes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the vectors of boxes [R, 2048], and what the last layers read."""
        from detectron2.structures import Boxes

        heads = self.model.roi_heads
        if self._dilated:
            pooled = heads.box_pooler(
                [maps[name] for name in heads.box_in_features], [Boxes(boxes)]
            )
            return pooled.flatten(1), heads.box_head(pooled)
        read = [maps[name] for name in heads.in_features]
        parts = [
            heads.res5(heads.pooler(read, [Boxes(part)])).mean((2, 3))
            for part in boxes.split(_AT_A_TIME)
        ]
        vectors = torch.cat(parts)
        return vectors, vectors

    def _regressed(self, boxes: Tensor, deltas: Tensor, classes: Tensor) -> Tensor:
        """Return boxes [R, 4] moved as the detector predicts for their classes [R]."""
        places = torch.arange(len(boxes), device=boxes.device)
        own = deltas.view(len(boxes), deltas.shape[1] // 4, 4)[places, classes]
        return self.model.roi_heads.box_predictor.box2box_transform.apply_deltas(own, boxes)


class Segmenter(_Detecting):
    """A panoptic model that turns pictures into segment features."""

    streams = (SEGMENT,)
    spec: SegmentFeatures

    def __init__(
        self, spec: SegmentFeatures, *, weights: Path | None, device: torch.device
    ) -> None:
        self.spec = spec
        self.model, _ = built(_PANOPTIC, {}, seed=spec.seed, device=device)
        digest = load(self.model, weights, key_map={})
        self.attributes = describe(
            spec, weights_sha256=digest, made_with=f"detectron2, torch {torch.__version__}"
        )

    @torch.inference_mode()
    def __call__(self, pictures: Sequence[Resized]) -> list[ImageFeatures]:
        """Return the segment features of pictures of one size."""
        inputs = self.inputs(pictures)
        records = []
        outputs = [output["panoptic_seg"] for output in self.model.inference(inputs)]
        if self.spec.form == "segments":
            images = self.model.preprocess_image(inputs)
            maps = self.model.backbone.bottom_up(images.tensor)["res5"]
        for row, (picture, (panoptic, segments)) in enumerate(zip(pictures, outputs, strict=True)):
            # 0..79 for things and 80..132 for stuff;
            # detectron2 counts stuff anew, and its 0 means "a thing".
            classes = {
                each["id"]: each["category_id"] + (0 if each["isthing"] else THINGS - 1)
                for each in segments
            }
            if self.spec.form == "occupancy":
                values = {SEGMENT: occupancy(panoptic.cpu(), classes, grid=self.spec.grid)}
            else:
                size = images.image_sizes[row]
                padded = tuple(images.tensor.shape[-2:])
                values = pooled(panoptic, classes, maps[row], size=size, padded=padded)
            records.append(ImageFeatures(picture.image_id, picture.size, values))
        return records


def occupancy(panoptic: Tensor, classes: dict[int, int], *, grid: int) -> np.ndarray:
    """Return the share of each class in each cell, float32 [grid * grid, 133] in raster order.

    ``panoptic`` [H, W] is the segment of each pixel, of which 0 is none; ``classes`` are those of
    the segments.
    """
    shares = torch.zeros(CLASSES, grid, grid)
    for name in sorted(set(classes.values())):
        own = torch.tensor([segment for segment, class_ in classes.items() if class_ == name])
        shares[name] = adaptive_avg_pool2d(torch.isin(panoptic, own).float()[None], grid)[0]
    return shares.flatten(1).T.contiguous().numpy()


def pooled(
    panoptic: Tensor,  # the segment of each pixel of the picture, [H, W]
    classes: dict[int, int],  # segment -> class
    maps: Tensor,  # [C, h, w] of the resized and padded picture
    *,
    size: tuple[int, int],  # height and width of the resized picture
    padded: tuple[int, ...],  # the same after padding
) -> dict[str, np.ndarray]:
    """Return vectors [S, C], boxes [S, 4] in pixels of the picture, and classes [S], a row a
    segment, as a store calls them.

    A picture in which no segment was found has one row for the whole of it, of class -1.
    """
    rows = []
    boxes = []
    # one mask at a time is held; without a segment, that of the whole picture
    for mask in (panoptic == segment for segment in classes or [panoptic]):
        small = interpolate(mask.float()[None, None], size=size, mode="area")
        small = pad(small, (0, padded[1] - size[1], 0, padded[0] - size[0]))
        weight = adaptive_avg_pool2d(small, (maps.shape[-2], maps.shape[-1]))[0, 0].to(maps.device)
        rows.append((maps * weight).sum((1, 2)) / weight.sum().clamp_min(1e-9))
        boxes.append(tight_box(mask.cpu().numpy()))
    return {
        SEGMENT: torch.stack(rows).cpu().numpy(),
        f"{SEGMENT}/boxes": np.asarray(boxes, np.float32),
        f"{SEGMENT}/classes": np.array(list(classes.values()) or [NOTHING]),
    }


def suppressed_confidence(
    boxes: Tensor, scores: Tensor, *, overlap: float
) -> tuple[Tensor, Tensor]:
    """Return each box's highest score among the classes in
    which it survives suppression [R], and that class [R].

    Of boxes [R, 4] with scores [R, classes], without the background, one that overlaps another of a
    higher score in a class by more than ``overlap`` (intersection over union) is dropped there;
    exact, for all classes at once. A box that survives nowhere has confidence 0 and its best class.
    """
    ensure_torchvision()
    from torchvision.ops import box_iou

    near = box_iou(boxes, boxes) > overlap
    near.fill_diagonal_(False)
    order = scores.argsort(stable=True, dim=0, descending=True).T  # [classes, R]
    classes = torch.arange(scores.shape[1], device=scores.device)
    alive = torch.ones_like(order, dtype=torch.bool)
    for rank in range(order.shape[1]):
        box = order[:, rank]
        survives = alive[classes, box]
        alive &= ~(near[box] & survives[:, None])
    confidence, best = (scores * alive.T).max(1)
    return confidence, torch.where(confidence > 0, best, scores.argmax(1))


def rising_suppression(boxes: Tensor, scores: Tensor, *, count: int) -> tuple[Tensor, Tensor]:
    """Return each box's best score if it survives suppression
    by boxes of any class, else 0 [R]; and its class [R].

    The overlap above which a box is dropped rises from 0.3 to 0.9 by 0.1 until ``count`` boxes
    survive, as in py-bottom-up-attention's script for COCO. Arguments as for
    `suppressed_confidence`.
    """
    best, classes = scores.max(1)
    for tenths in range(3, 10):
        confidence, _ = suppressed_confidence(boxes, best[:, None], overlap=tenths / 10)
        if int((confidence > 0).sum()) >= count:
            break
    return confidence, classes


def choose(confidence: Tensor, *, threshold: float, least: int, most: int) -> tuple[Tensor, Tensor]:
    """Return the indices of the up to ``most`` regions of highest confidence, from the highest
    down, and how many of them to keep: those at or above ``threshold``, but at least ``least`` (or
    as many as there are).

    Their number stays a tensor, so that a GPU need not be waited for.
    """
    order = confidence.argsort(stable=True, descending=True)[:most]
    return order, (confidence >= threshold).sum().clamp(min(least, len(order)), len(order))
