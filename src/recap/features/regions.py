"""Regions of a Visual Genome detector: boxes, vectors (of 2048 numbers before the last layers), classes, attributes.

Bottom-up (Anderson et al. 2018): Faster R-CNN on ResNet-101; each box's 14 x 14 crop of the fourth stage goes through
the fifth and is averaged. Grid-feats (Jiang et al. 2020): ResNeXt-101 with a dilated fifth stage; each box is one cell
of 1 x 1 RoIAlign, before the two layers of width 1024; its grid is the fifth stage without dilation (stride 32).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from recap.core.device import select_device
from recap.features.attributes import describe
from recap.features.detectron import DETECTORS, build_released
from recap.features.extraction import ExtractionJob, Pictures, extract
from recap.features.pictures import Resized, alike, on_device, resize_scale
from recap.features.records import GRID, REGION, ImageFeatures
from recap.settings.features import RegionFeatures, SegmentFeatures

AT_A_TIME = 100  # regions that pass through the fifth stage together: 160 MB of its last maps
WAITING = 8  # batches of pictures that wait at most for others of their size
_CODE = ("recap.features.regions", "recap.features.detectron")


def extract_regions(spec: RegionFeatures, job: ExtractionJob) -> None:
    """Write the regions of all pictures of a corpus into one store; an interrupted run is taken up again."""
    detector = Detector(spec, inputs=job.inputs, device=select_device(job.device))
    extract_alike(spec, job, detector, attributes=detector.attributes, streams=spec.streams(), code=_CODE)


def extract_alike(
    spec: RegionFeatures | SegmentFeatures,
    job: ExtractionJob,
    encode: Callable[[list[Resized]], list[ImageFeatures]],
    **settings: Any,
) -> None:
    """Write a store from a detector that takes pictures of one size together.

    They are not padded to each other: features near the edge of a padded one would differ from those of the same
    picture alone.
    """
    pictures = Pictures.find(job)

    def load(image_id: int) -> Resized:
        _, picture = pictures.load(image_id)
        return Resized.of(image_id, picture, short=spec.short_side, long=spec.long_side)

    def batch(loaded: Iterator[Resized]) -> Iterator[list[Resized]]:
        return alike(loaded, key=lambda each: each.size, size=spec.batch_size, most=WAITING * spec.batch_size)

    extract(spec, job, encode, batch, ids=list(pictures.views), origins=pictures.origins, load=load, **settings)


class Detector:
    """A detectron2 detector that turns pictures into regions.

    Attributes:
        attributes: what a store says of it.
    """

    def __init__(self, spec: RegionFeatures, *, inputs: Path, device: torch.device) -> None:
        """Build it and load its weights."""
        self.spec, self._release = spec, DETECTORS[spec.detector]
        self.model, config, weights = build_released(spec, inputs=inputs, device=device)
        self._plain = self._undilated(config, device) if spec.grid and self._dilated else None
        self.attributes = describe(spec, weights_sha256=weights, made_with=_made_with(device))

    @property
    def _dilated(self) -> bool:
        return "res5" in self.model.backbone.output_shape()

    def _undilated(self, config: Any, device: torch.device) -> Any:
        """Return the fifth stage with stride 2 and without dilation, of the same weights."""
        from detectron2.modeling import build_backbone

        config.MODEL.RESNETS.RES5_DILATION = 1
        config.MODEL.RESNETS.OUT_FEATURES = ["res4", "res5"]
        backbone = build_backbone(config).eval().to(device)
        backbone.load_state_dict(self.model.backbone.state_dict())
        return backbone

    @torch.inference_mode()
    def __call__(self, pictures: Sequence[Resized]) -> list[ImageFeatures]:
        """Return regions and grid, whichever the settings ask for, of pictures of one size.

        They pass through the backbone together, and one after the other through what follows.
        """
        size = pictures[0].size
        images = self.model.preprocess_image([{"image": each} for each in on_device(pictures, self.model.device)])
        needs_maps = self.spec.regions or self._plain is None
        maps = self.model.backbone(images.tensor) if needs_maps else {}
        found = self._found(images, maps, size) if self.spec.regions else [(0, {}) for _ in pictures]
        grids = self._grids(images, maps) if self.spec.grid else [None] * len(found)
        records = []
        # All pictures are computed before the first is fetched, so that a GPU is waited for once.
        for picture, (kept, arrays), grid in zip(pictures, found, grids, strict=True):
            values = {name: self._fetched(name, array[: int(kept)]) for name, array in arrays.items()}
            if self.spec.regions:
                values[f"{REGION}/boxes"] = _scaled(values[f"{REGION}/boxes"], picture)
            if grid is not None:
                values[GRID] = self._fetched(GRID, grid)
            records.append(ImageFeatures(picture.image_id, size, values))
        return records

    def _found(self, images: Any, maps: dict[str, Tensor], size: tuple[int, int]) -> list[Any]:
        """Return how many regions to keep and arrays of each picture of a batch, all of one (width, height)."""
        smallest = self._release.least_side if self.spec.least_side is None else self.spec.least_side
        scale = resize_scale(size, short=self.spec.short_side, long=self.spec.long_side)
        # Caffe counts both edge pixels of a side.
        self.model.proposal_generator.min_box_size = max(0.0, smallest * scale - 1)
        proposals, _ = self.model.proposal_generator(images, maps, None)
        boxes = [self._inside(each.proposal_boxes.tensor, images.image_sizes[0]) for each in proposals]
        return [self._regions(maps, row, each) for row, each in enumerate(boxes)]

    def _inside(self, boxes: Tensor, size: tuple[int, int]) -> Tensor:
        """Return proposals [R, 4] as the next layers read them: Caffe's end at the last pixel of (height, width)."""
        if self.spec.anchors != "caffe":
            return boxes
        return torch.minimum(boxes, boxes.new_tensor([size[1] - 1, size[0] - 1] * 2))

    def _regions(self, maps: dict[str, Tensor], row: int, boxes: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return of the picture in a row of a batch how many regions to keep, and arrays whose first rows these are."""
        spec = self.spec
        vectors, hidden = self._pooled({name: each[row : row + 1] for name, each in maps.items()}, boxes)
        logits, deltas = self.model.roi_heads.box_predictor(hidden)
        probabilities = logits.softmax(-1)[:, :-1]
        if spec.selection == "rising":
            own = self._regressed(boxes, deltas, probabilities.argmax(1))
            confidence, classes = rising_suppression(own, probabilities, count=spec.max_boxes)
        else:
            confidence, classes = suppressed_confidence(boxes, probabilities, overlap=spec.nms)
        order, kept = choose(confidence, threshold=spec.score_threshold, least=spec.min_boxes, most=spec.max_boxes)
        classes = classes[order]
        regressed = spec.boxes == "regressed"
        arrays = {
            REGION: self._stored(vectors[order]),
            f"{REGION}/boxes": self._regressed(boxes[order], deltas[order], classes) if regressed else boxes[order],
            f"{REGION}/classes": classes,
            f"{REGION}/class_scores": confidence[order],
        }
        if spec.attributes:
            # The class whose embedding is read may be the background, as in the released networks.
            best = self.model.attribute_head(hidden[order], logits[order].argmax(1)).max(-1)
            arrays[f"{REGION}/attributes"] = best.indices
            arrays[f"{REGION}/attribute_scores"] = best.values
        return kept, arrays

    def _pooled(self, maps: dict[str, Tensor], boxes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the vectors of boxes [R, 2048], and what the last layers read."""
        from detectron2.structures import Boxes

        heads = self.model.roi_heads
        if self._dilated:
            pooled = heads.box_pooler([maps[name] for name in heads.box_in_features], [Boxes(boxes)])
            return pooled.flatten(1), heads.box_head(pooled)
        read = [maps[name] for name in heads.in_features]
        parts = [heads.res5(heads.pooler(read, [Boxes(part)])).mean((2, 3)) for part in boxes.split(AT_A_TIME)]
        vectors = torch.cat(parts)
        return vectors, vectors

    def _stored(self, vectors: Tensor) -> Tensor:
        """Return what is kept of the vectors of regions [R, 2048]: themselves, or the layer after them [R, 1024]."""
        if self.spec.vectors == "pooled":
            return vectors
        head = self.model.roi_heads.box_head
        return head.fc_relu1(head.fc1(vectors))

    def _regressed(self, boxes: Tensor, deltas: Tensor, classes: Tensor) -> Tensor:
        """Return boxes [R, 4] moved as the detector predicts for their classes [R]."""
        places = torch.arange(len(boxes), device=boxes.device)
        own = deltas.view(len(boxes), deltas.shape[1] // 4, 4)[places, classes]
        moved: Tensor = self.model.roi_heads.box_predictor.box2box_transform.apply_deltas(own, boxes)
        return moved

    def _grids(self, images: Any, maps: dict[str, Tensor]) -> Tensor:
        """Return the fifth stage over whole pictures, averaged to cells [B, grid * grid, 2048] in raster order."""
        found = self._plain(images.tensor)["res5"] if self._plain else self.model.roi_heads.res5(maps["res4"])
        return adaptive_avg_pool2d(found, self.spec.grid).flatten(2).transpose(1, 2)

    def _fetched(self, name: str, values: Tensor) -> np.ndarray:
        """Return an array on the CPU, vectors in the type that is stored."""
        if name in (REGION, GRID) and self.spec.dtype == "float16":
            half: np.ndarray = values.half().cpu().numpy()
            if np.isfinite(half).all():
                return half  # else the store says of the full values what is wrong with them
        whole: np.ndarray = values.cpu().numpy()
        return whole


# ---- which proposals become regions (Anderson et al. 2018, section 3.1)


def suppressed_confidence(boxes: Tensor, scores: Tensor, *, overlap: float) -> tuple[Tensor, Tensor]:
    """Return each box's highest score among the classes in which it survives suppression [R], and that class [R].

    In each class, a box that overlaps one of higher score by more than ``overlap`` (intersection over union) is
    dropped; exact, for all classes at once. A box that survives nowhere has confidence 0 and its best class.

    ``boxes`` [R, 4], ``scores`` [R, classes]: probabilities without the background.
    """
    near = intersection_over_union(boxes) > overlap
    near.fill_diagonal_(False)
    order = scores.argsort(stable=True, dim=0, descending=True).T  # [classes, R]
    classes = torch.arange(scores.shape[1], device=scores.device)
    alive = torch.ones_like(order, dtype=torch.bool)
    for rank in range(order.shape[1]):
        box = order[:, rank]
        keeps = alive[classes, box]
        alive &= ~(near[box] & keeps[:, None])
    confidence, best = (scores * alive.T).max(1)
    return confidence, torch.where(confidence > 0, best, scores.argmax(1))


def rising_suppression(boxes: Tensor, scores: Tensor, *, count: int) -> tuple[Tensor, Tensor]:
    """Return each box's best score if it survives suppression by boxes of any class, else 0 [R]; and its class [R].

    The overlap above which a box is dropped rises from 0.3 to 0.9 by 0.1 until ``count`` boxes survive, as in
    py-bottom-up-attention's script for COCO; boxes and scores as above.
    """
    best, classes = scores.max(1)
    for tenths in range(3, 10):
        confidence, _ = suppressed_confidence(boxes, best[:, None], overlap=tenths / 10)
        if int((confidence > 0).sum()) >= count:
            break
    return confidence, classes


def choose(confidence: Tensor, *, threshold: float, least: int, most: int) -> tuple[Tensor, Tensor]:
    """Return the indices of the up to ``most`` regions of highest confidence, from the highest down, and how many of
    them to keep: those at or above ``threshold``, but at least ``least`` (or as many as there are).

    Their number stays a tensor, so that a GPU need not be waited for.
    """
    order = confidence.argsort(stable=True, descending=True)[:most]
    return order, (confidence >= threshold).sum().clamp(min(least, len(order)), len(order))


def intersection_over_union(boxes: Tensor) -> Tensor:
    """Return the overlap of all pairs [R, R] of boxes [R, 4] (left, top, right, bottom)."""
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp_min(0).prod(-1)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return shared / (area[:, None] + area[None, :] - shared).clamp_min(1e-9)


def _scaled(boxes: np.ndarray, picture: Resized) -> np.ndarray:
    """Return boxes of the resized picture as boxes of the picture, clipped to it, float32 [R, 4]."""
    width, height = picture.size
    scale = np.array([width / picture.pixels.shape[2], height / picture.pixels.shape[1]] * 2, np.float32)
    found: np.ndarray = np.clip(boxes * scale, 0, np.array([width, height] * 2, np.float32))
    return found


def _made_with(device: torch.device) -> str:
    import detectron2

    return f"detectron2 {detectron2.__version__}, torch {torch.__version__}, {device.type}"
