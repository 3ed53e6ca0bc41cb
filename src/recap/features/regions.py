"""Regions of a Visual Genome detector: boxes, vectors (of 2048 numbers before the last layers), classes, attributes.

Bottom-up (Anderson et al. 2018): Faster R-CNN on ResNet-101; each box's 14 x 14 crop of the fourth stage goes through
the fifth and is averaged. Grid-feats (Jiang et al. 2020): ResNeXt-101 with a dilated fifth stage; each box is one cell
of 1 x 1 RoIAlign, before the two layers of width 1024; its grid is the fifth stage without dilation (stride 32).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

from recap.core.device import select_device
from recap.features.attributes import describe
from recap.features.detectron import built, configured, load
from recap.features.extraction import Pictures, extract_each
from recap.features.job import ExtractionJob
from recap.features.layout import GRID, REGION
from recap.features.records import ImageFeatures
from recap.features.selection import choose, suppressed_confidence
from recap.settings.features.regions import RegionFeatures

if TYPE_CHECKING:
    from PIL.Image import Image

_C4 = "COCO-Detection/faster_rcnn_R_50_C4_1x.yaml"
_DETECTORS: dict[str, tuple[str, dict[str, Any]]] = {
    "faster_rcnn_r50_c4": (_C4, {"MODEL.PIXEL_STD": [57.375, 57.120, 58.395]}),
    "bottom_up_r101_c4": (
        _C4,
        {
            "MODEL.RESNETS.DEPTH": 101,
            "MODEL.ANCHOR_GENERATOR.SIZES": [[64, 128, 256, 512]],
            "MODEL.RPN.CONV_DIMS": [512],
            "MODEL.ROI_BOX_HEAD.POOLER_TYPE": "ROIPool",
            "MODEL.PIXEL_MEAN": [102.9801, 115.9465, 122.7717],
        },
    ),
    "grid_feats_x101_c5": (
        "COCO-Detection/faster_rcnn_R_101_DC5_3x.yaml",
        {
            "MODEL.RESNETS.DEPTH": 101,
            "MODEL.RESNETS.NUM_GROUPS": 32,
            "MODEL.RESNETS.WIDTH_PER_GROUP": 8,
            "MODEL.RESNETS.STRIDE_IN_1X1": False,
            "MODEL.PIXEL_STD": [57.375, 57.120, 58.395],
            "MODEL.ROI_BOX_HEAD.POOLER_RESOLUTION": 1,
        },
    ),
}
_CODE = ("recap.features.regions", "recap.features.detectron", "recap.features.selection")


def extract_regions(spec: RegionFeatures, job: ExtractionJob) -> None:
    """Write the regions of all pictures of a corpus into one store; an interrupted run is taken up again.

    Args:
        spec: detector, weights, how many regions.
        job: the pictures; ``threads`` of them are decoded at a time.

    Raises:
        RecapError: detectron2 is absent, weights or pictures are missing or broken, no GPU where one is asked for.
    """
    pictures = Pictures.find(job)
    detector = Detector(spec, inputs=job.inputs, device=select_device(job.device))
    extract_each(
        spec,
        job,
        pictures=pictures,
        encode=detector,
        attributes=detector.attributes,
        streams=(REGION, GRID) if spec.grid else (REGION,),
        code=_CODE,
    )


class AttributeHead(nn.Module):
    """Attributes from a region's vector and an embedding of its class (Anderson et al. 2018, section 3.1)."""

    def __init__(self, *, classes: int, attributes: int, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes + 1, 256)
        self.hidden = nn.Linear(size + 256, 512)
        self.scores = nn.Linear(512, attributes + 1)

    def forward(self, vectors: Tensor, classes: Tensor) -> Tensor:
        """Return probabilities [R, attributes], without "no attribute", for vectors [R, size] and classes [R]."""
        hidden = torch.relu(self.hidden(torch.cat([vectors, self.embedding(classes)], 1)))
        return self.scores(hidden).softmax(-1)[:, :-1]


class Detector:
    """A detectron2 detector that turns a picture into regions."""

    def __init__(self, spec: RegionFeatures, *, inputs: Path, device: torch.device) -> None:
        """Build it and load its weights.

        Raises:
            RecapError: detectron2 is absent, or the weights are missing or do not fit.
        """
        name, changes = _DETECTORS[spec.detector]
        asked = {"MODEL.ROI_HEADS.NUM_CLASSES": spec.classes, "MODEL.RPN.POST_NMS_TOPK_TEST": 300, **changes}
        config = configured(name, asked)
        self.spec = spec
        self.model = built(config, seed=spec.seed, device=device)
        if spec.attributes:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(spec.seed)
                head = AttributeHead(classes=spec.classes, attributes=spec.attributes, size=2048)
            self.model.attribute_head = head.eval().to(device)
        path = None if spec.weights == "random" else inputs / spec.weights
        weights = load(self.model, path, key_map=spec.key_map)
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
    def __call__(self, image_id: int, picture: Image) -> ImageFeatures:
        """Return regions, and the grid if the settings ask for it, of an RGB picture."""
        width, height = picture.size
        image = network_input(picture, short=self.spec.short_side, long=self.spec.long_side)
        images = self.model.preprocess_image([{"image": image}])
        maps = self.model.backbone(images.tensor)
        proposals, _ = self.model.proposal_generator(images, maps, None)
        vectors, hidden = self._pooled(maps, proposals[0].proposal_boxes)
        boxes, chosen, classes, scores = self._chosen(proposals[0].proposal_boxes.tensor, hidden)
        scale = torch.tensor([width / image.shape[2], height / image.shape[1]] * 2)
        edges = torch.tensor([width, height] * 2)
        arrays = {
            REGION: self._stored(vectors[chosen]).cpu().numpy(),
            f"{REGION}/boxes": torch.minimum((boxes.cpu() * scale).clamp_min(0), edges).numpy(),
            f"{REGION}/classes": classes.cpu().numpy(),
            f"{REGION}/class_scores": scores.cpu().numpy(),
        }
        if self.spec.attributes:
            best = self.model.attribute_head(vectors[chosen], classes).max(-1)
            arrays[f"{REGION}/attributes"] = best.indices.cpu().numpy()
            arrays[f"{REGION}/attribute_scores"] = best.values.cpu().numpy()
        if self.spec.grid:
            arrays[GRID] = self._grid(images, maps)
        return ImageFeatures(image_id, (width, height), arrays)

    def _pooled(self, maps: dict[str, Tensor], boxes: Any) -> tuple[Tensor, Tensor]:
        """Return the vectors of boxes [R, 2048], and what the last layers read."""
        heads = self.model.roi_heads
        if self._dilated:
            pooled = heads.box_pooler([maps[name] for name in heads.box_in_features], [boxes])
            return pooled.flatten(1), heads.box_head(pooled)
        vectors = heads.res5(heads.pooler([maps[name] for name in heads.in_features], [boxes])).mean((2, 3))
        return vectors, vectors

    def _stored(self, vectors: Tensor) -> Tensor:
        """Return what is kept of the vectors of regions [R, 2048]: themselves, or the layer after them [R, 1024]."""
        if self.spec.vectors == "pooled":
            return vectors
        head = self.model.roi_heads.box_head
        return head.fc_relu1(head.fc1(vectors))

    def _chosen(self, boxes: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return boxes, indices, classes and scores of the regions to keep; suppression compares the proposals."""
        spec, predictor = self.spec, self.model.roi_heads.box_predictor
        logits, deltas = predictor(hidden)
        confidence, classes = suppressed_confidence(boxes, logits.softmax(-1)[:, :-1], overlap=spec.nms)
        kept = choose(confidence, threshold=spec.score_threshold, least=spec.min_boxes, most=spec.max_boxes)
        classes = classes[kept]
        if spec.boxes == "proposals":
            return boxes[kept], kept, classes, confidence[kept]
        own = deltas[kept].view(len(kept), deltas.shape[1] // 4, 4)[torch.arange(len(kept)), classes]
        return predictor.box2box_transform.apply_deltas(own, boxes[kept]), kept, classes, confidence[kept]

    def _grid(self, images: Any, maps: dict[str, Tensor]) -> np.ndarray:
        """Return the fifth stage over the whole picture, averaged to cells [grid * grid, 2048] in raster order."""
        found = self._plain(images.tensor)["res5"] if self._plain else self.model.roi_heads.res5(maps["res4"])
        rows: np.ndarray = adaptive_avg_pool2d(found, self.spec.grid)[0].flatten(1).T.contiguous().cpu().numpy()
        return rows


def network_input(picture: Image, *, short: int, long: int) -> Tensor:
    """Return a picture as BGR float32 [3, h, w]: shorter side ``short``, unless the longer one would pass ``long``."""
    width, height = picture.size
    scale = min(short / min(width, height), long / max(width, height))
    resized = picture.resize((max(1, round(width * scale)), max(1, round(height * scale))), 2)  # bilinear
    return torch.from_numpy(np.asarray(resized)[:, :, ::-1].copy()).permute(2, 0, 1).float()


def _made_with(device: torch.device) -> str:
    import detectron2

    return f"detectron2 {detectron2.__version__}, torch {torch.__version__}, {device.type}"
