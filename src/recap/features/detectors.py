"""The detectors by name: built as the release that trained them has them, with its names of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from recap.features.attribute_head import AttributeHead
from recap.features.bottom_up import CaffeStem, caffe_anchors
from recap.features.detectron import built, configured, dilated_stage, load
from recap.settings.features import RegionFeatures

_PREDICTOR, _ATTRIBUTES = "roi_heads.box_predictor.", "roi_heads.attribute_predictor."


@dataclass(frozen=True)
class Release:
    """A detector as it was released."""

    config: str  #: a configuration of detectron2's model zoo
    changes: Mapping[str, Any]  #: what the release sets in another way
    proposals: int = 300  #: how many proposals are classified
    least_side: float = 0.0  #: proposals with a shorter side in pixels of the picture are dropped
    #: prefix of a tensor's name in the released file -> prefix in our detector
    names: Mapping[str, str] = field(default_factory=dict)
    attributes_from: int = 2048  #: length of the vectors from which attributes are scored
    no_attribute: bool = True  #: whether "no attribute" is scored, too
    caffe: bool = False  #: whether it is the network of bottom-up attention, which detectron2 does not build

    def options(self, spec: RegionFeatures) -> dict[str, Any]:
        """Return all that is set in the configuration."""
        return {
            "MODEL.ROI_HEADS.NUM_CLASSES": spec.classes,
            "MODEL.ROI_BOX_HEAD.BBOX_REG_WEIGHTS": spec.box_weights,
            "MODEL.RPN.POST_NMS_TOPK_TEST": spec.proposals or self.proposals,
            **self.changes,
        }


_C4 = "COCO-Detection/faster_rcnn_R_50_C4_1x.yaml"
_RESNEXT_STD = {"MODEL.PIXEL_STD": [57.375, 57.120, 58.395]}
DETECTORS = {
    "faster_rcnn_r50_c4": Release(_C4, _RESNEXT_STD),
    # configs/VG-Detection of airsplay/py-bottom-up-attention; 300 proposals and the least side are Caffe's.
    "bottom_up_r101_c4": Release(
        _C4,
        {
            "MODEL.RESNETS.DEPTH": 101,
            "MODEL.ANCHOR_GENERATOR.SIZES": [[64, 128, 256, 512]],
            "MODEL.RPN.CONV_DIMS": [512],
            "MODEL.ROI_BOX_HEAD.POOLER_TYPE": "ROIPool",
            "MODEL.PIXEL_MEAN": [102.9801, 115.9465, 122.7717],
        },
        least_side=16.0,
        names={
            f"{_PREDICTOR}cls_embedding.": "attribute_head.embedding.",
            f"{_PREDICTOR}fc_attr.": "attribute_head.hidden.",
            f"{_PREDICTOR}attr_score.": "attribute_head.scores.",
        },
        caffe=True,
    ),
    # configs/X-101-grid.yaml of facebookresearch/grid-feats-vqa.
    "grid_feats_x101_c5": Release(
        "COCO-Detection/faster_rcnn_R_101_DC5_3x.yaml",
        {
            "MODEL.RESNETS.DEPTH": 101,
            "MODEL.RESNETS.NUM_GROUPS": 32,
            "MODEL.RESNETS.WIDTH_PER_GROUP": 8,
            "MODEL.RESNETS.STRIDE_IN_1X1": False,
            "MODEL.ROI_BOX_HEAD.POOLER_RESOLUTION": 1,
            "MODEL.ROI_BOX_HEAD.POOLER_SAMPLING_RATIO": 2,
            **_RESNEXT_STD,
        },
        proposals=1000,
        names={
            f"{_ATTRIBUTES}obj_embed.": "attribute_head.embedding.",
            f"{_ATTRIBUTES}fc.0.": "attribute_head.hidden.",
            f"{_ATTRIBUTES}attr_score.": "attribute_head.scores.",
        },
        attributes_from=1024,
        no_attribute=False,
    ),
}


def build_released(spec: RegionFeatures, *, inputs: Path, device: torch.device) -> tuple[Any, Any, str]:
    """Build a detector as its release has it and load its weights.

    Returns:
        The model, its configuration in detectron2, and the hash of its weights.
    """
    release = DETECTORS[spec.detector]
    config = configured(release.config, release.options(spec))
    model = built(config, seed=spec.seed, device=device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        if release.caffe:
            model.backbone.stem = CaffeStem(model.backbone.stem.conv1)
            model.roi_heads.res5 = dilated_stage(config)
        if spec.attributes:
            model.attribute_head = AttributeHead(
                classes=spec.classes,
                attributes=spec.attributes,
                size=release.attributes_from,
                none=release.no_attribute,
            )
    if spec.anchors == "caffe":
        (anchors,) = model.proposal_generator.anchor_generator.cell_anchors
        anchors.copy_(caffe_anchors())
    weights = load(
        model,
        None if spec.weights == "random" else inputs / spec.weights,
        key_map={**release.names, **spec.key_map},
        unused=() if spec.attributes else ("attribute_head.",),
        background_first=spec.background == "first",
    )
    return model.eval().to(device), config, weights
