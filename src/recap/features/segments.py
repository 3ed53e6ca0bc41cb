"""Segments of a panoptic model, as a second stream beside a grid.

Papers call several things "segmentation" features. ``occupancy``: on the grid's cells, the share of each of COCO's 133
panoptic classes, as DIFNet's released segmentation stream has it. ``segments``: one vector a segment, the fifth stage
averaged under its mask, with its tight box. Where a paper does not say which it took, its table says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, interpolate, pad

from recap.core.device import select_device
from recap.features.attributes import describe
from recap.features.detectron import built, configured, load
from recap.features.extraction import ExtractionJob
from recap.features.pictures import Resized, on_device
from recap.features.records import SEGMENT, ImageFeatures
from recap.features.regions import extract_alike
from recap.settings.features import SegmentFeatures

THINGS, CLASSES = 80, 133  # COCO's panoptic classes: things first, then stuff
NOTHING = -1  # class of what no segment covers
_MODEL = "COCO-PanopticSegmentation/panoptic_fpn_R_101_3x.yaml"
_CODE = ("recap.features.segments", "recap.features.regions", "recap.features.detectron")


def extract_segments(spec: SegmentFeatures, job: ExtractionJob) -> None:
    """Write the segments of all pictures of a corpus into one store; an interrupted run is taken up again."""
    segmenter = Segmenter(spec, inputs=job.inputs, device=select_device(job.device))
    extract_alike(spec, job, segmenter, attributes=segmenter.attributes, streams=(SEGMENT,), code=_CODE)


class Segmenter:
    """A panoptic model that turns pictures into segment features.

    Attributes:
        attributes: what a store says of it.
    """

    def __init__(self, spec: SegmentFeatures, *, inputs: Path, device: torch.device) -> None:
        """Build it and load its weights."""
        self.spec = spec
        self.model: Any = built(configured(_MODEL, {}), seed=spec.seed, device=device)
        path = None if spec.weights == "random" else inputs / spec.weights
        weights = load(self.model, path, key_map={})
        self.attributes = describe(spec, weights_sha256=weights, made_with=f"detectron2, torch {torch.__version__}")

    @torch.inference_mode()
    def __call__(self, pictures: Sequence[Resized]) -> list[ImageFeatures]:
        """Return the segment features of pictures of one size."""
        width, height = pictures[0].size
        pixels = on_device(pictures, self.model.device)
        asked = [{"image": each, "height": height, "width": width} for each in pixels]
        answers = [answer["panoptic_seg"] for answer in self.model.inference(asked)]
        classes = [
            {each["id"]: panoptic_class(each["category_id"], each["isthing"]) for each in own} for _, own in answers
        ]
        if self.spec.form == "occupancy":
            values = [
                {SEGMENT: occupancy(found.cpu(), own, grid=self.spec.grid)}
                for (found, _), own in zip(answers, classes, strict=True)
            ]
        else:
            values = self._pooled(asked, [found for found, _ in answers], classes)
        return [ImageFeatures(each.image_id, each.size, own) for each, own in zip(pictures, values, strict=True)]

    def _pooled(
        self, asked: list[dict[str, Any]], found: list[Tensor], classes: list[dict[int, int]]
    ) -> list[dict[str, np.ndarray]]:
        """Return vectors, boxes and classes of each picture's segments."""
        images = self.model.preprocess_image(asked)
        maps = self.model.backbone.bottom_up(images.tensor)["res5"]
        padded = tuple(images.tensor.shape[-2:])
        names = (SEGMENT, f"{SEGMENT}/boxes", f"{SEGMENT}/classes")
        return [
            dict(zip(names, pooled(*each, size=size, padded=padded), strict=True))
            for *each, size in zip(found, classes, maps, images.image_sizes, strict=True)
        ]


def panoptic_class(category: int, thing: bool) -> int:
    """Return 0..79 for things and 80..132 for stuff from detectron2's numbers, whose stuff 0 means "a thing"."""
    return category if thing else THINGS + category - 1


def occupancy(segments: Tensor, classes: dict[int, int], *, grid: int) -> np.ndarray:
    """Return the share of each class in each cell, float32 [grid * grid, 133] in raster order.

    ``segments`` [H, W] is the segment of each pixel, 0 for none; ``classes``: segment -> class.
    """
    shares = torch.zeros(CLASSES, grid, grid)
    for name in sorted(set(classes.values())):
        own = torch.tensor([segment for segment, class_ in classes.items() if class_ == name])
        shares[name] = adaptive_avg_pool2d(torch.isin(segments, own).float()[None], grid)[0]
    return shares.flatten(1).T.contiguous().numpy()


def pooled(
    segments: Tensor, classes: dict[int, int], maps: Tensor, *, size: tuple[int, int], padded: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return vectors [S, C], boxes [S, 4] in pixels of the picture, and classes [S], a row a segment.

    A picture in which no segment was found has one row for the whole of it, of class -1.

    ``maps`` [C, h, w] are those of the resized picture of height and width ``size``, ``padded`` to a larger one.
    """
    kinds = classes or {0: NOTHING}
    rows, boxes = [], []
    for segment in kinds:
        mask = segments == segment if classes else torch.ones_like(segments, dtype=torch.bool)
        small = interpolate(mask.float()[None, None], size=size, mode="area")
        small = pad(small, (0, padded[1] - size[1], 0, padded[0] - size[0]))
        weight = adaptive_avg_pool2d(small, (maps.shape[-2], maps.shape[-1]))[0, 0].to(maps.device)
        rows.append((maps * weight).sum((1, 2)) / weight.sum().clamp_min(1e-9))
        high, wide = mask.any(1).nonzero(), mask.any(0).nonzero()
        edges = (wide.min(), high.min(), wide.max() + 1, high.max() + 1)
        boxes.append([float(edge) for edge in edges])
    return torch.stack(rows).cpu().numpy(), np.array(boxes, np.float32), np.array(list(kinds.values()))
