"""Detectors of detectron2: built as the release that trained them has them,
with weights that hold tensors alone.

detectron2 is no dependency: it has no wheels. docs/guides/detectron2.md says how it is built.

What makes its ResNet-101 the network of bottom-up attention (Anderson et al. 2018) is not seen in
names and shapes of weights: released weights load without it, and give other vectors. Of three
sources that run these weights, all agree on the first two: py-bottom-up-attention (`CAFFE_MAXPOOL:
True`, `RES5HALVE: False`), MILVLG's bottom-up-attention.pytorch (`RES5_DILATION: 2`) and the copy
in transformers' LXMERT project. Only MILVLG's has the third.

- the stem's max pooling has no padding and keeps the last, incomplete window;
- the fifth stage in the head has stride 1 and dilation 2, so that a region's 14 x 14 cells stay 14
  x 14;
- Caffe's anchors are rounded, stand at the middle of a cell and are ordered by ratio, then size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d

from recap.core.errors import ConfigError, DamagedFeatures, FeatureError, first_line
from recap.core.hashing import derived_seed, sha256_file
from recap.core.log import log
from recap.features.tensors import read_tensors, weights_hash
from recap.settings.features import RegionFeatures

_STRIDE = 16  # of the fourth stage, and the side of Caffe's base anchor
_SCALES, _RATIOS = (4, 8, 16, 32), (0.5, 1.0, 2.0)
_PREDICTOR, _ATTRIBUTES = "roi_heads.box_predictor.", "roi_heads.attribute_predictor."


@dataclass(frozen=True)
class Release:
    """A detector as it was released."""

    config: str  # of detectron2's model zoo
    changes: Mapping[str, Any]  # what the release sets in another way
    proposals: int = 300  # that are classified
    least_side: float = 0.0  # proposals with a shorter side in pixels of the picture are dropped
    # prefix of a tensor's name in the file -> in our detector
    names: Mapping[str, str] = field(default_factory=dict)
    attributes_from: int = 2048  # length of the vectors from which attributes are scored
    no_attribute: bool = True  # whether "no attribute" is scored, too
    # whether it is the network of bottom-up attention, which detectron2 does not build
    caffe: bool = False


_C4 = "COCO-Detection/faster_rcnn_R_50_C4_1x.yaml"
_RESNEXT_STD = {"MODEL.PIXEL_STD": [57.375, 57.120, 58.395]}
DETECTORS = {
    "faster_rcnn_r50_c4": Release(_C4, _RESNEXT_STD),
    # configs/VG-Detection of airsplay/py-bottom-up-attention;
    # 300 proposals and the least side are Caffe's.
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


def build_released(
    spec: RegionFeatures, *, weights: Path | None, device: torch.device
) -> tuple[Any, Any, str]:
    """Build a detector as its release has it.

    Return it, its configuration, and the hash of its weights.
    """
    release = DETECTORS[spec.detector]
    options = {
        "MODEL.ROI_HEADS.NUM_CLASSES": spec.classes,
        "MODEL.ROI_BOX_HEAD.BBOX_REG_WEIGHTS": spec.box_weights,
        "MODEL.RPN.POST_NMS_TOPK_TEST": spec.proposals or release.proposals,
        **release.changes,
    }
    model, config = built(release.config, options, seed=spec.seed, device=device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        if release.caffe:
            model.backbone.stem = CaffeStem(model.backbone.stem.conv1)
            model.roi_heads.res5 = _dilated_stage(config)
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
    digest = load(
        model,
        weights,
        key_map={**release.names, **spec.key_map},
        unused=() if spec.attributes else ("attribute_head.",),
        background_first=spec.background == "first",
    )
    return model.eval().to(device), config, digest


def built(
    name: str, changes: Mapping[str, Any], *, seed: int, device: torch.device
) -> tuple[Any, Any]:
    """Build a detector of the model zoo with changes and seeded random weights.

    Return it and its configuration.
    """
    try:
        from detectron2 import model_zoo
        from detectron2.modeling import build_model
    except ImportError as error:
        raise ConfigError(
            f"regions and segments need detectron2, which cannot be imported ({error}): build it "
            "as docs/guides/detectron2.md says, run this rule with `snakemake --sdm conda`, or "
            "import extracted features"
        ) from error
    config = model_zoo.get_config(name)
    config.merge_from_list(list(chain.from_iterable(changes.items())))
    config.MODEL.WEIGHTS = ""
    config.MODEL.DEVICE = device.type
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "detector"))
        return build_model(config).eval(), config


def _dilated_stage(config: Any) -> nn.Module:
    """Return a fifth stage of stride 1 and dilation 2, [R, C / 2, h, w] -> [R, C, h, w]."""
    from detectron2.modeling.backbone.resnet import BottleneckBlock, ResNet

    resnet = config.MODEL.RESNETS
    blocks = ResNet.make_stage(
        BottleneckBlock,
        3,
        stride_per_block=[1, 1, 1],
        dilation=2,
        in_channels=resnet.RES2_OUT_CHANNELS * 4,
        out_channels=resnet.RES2_OUT_CHANNELS * 8,
        bottleneck_channels=resnet.NUM_GROUPS * resnet.WIDTH_PER_GROUP * 8,
        num_groups=resnet.NUM_GROUPS,
        norm=resnet.NORM,
        stride_in_1x1=resnet.STRIDE_IN_1X1,
    )
    return nn.Sequential(*blocks)


class CaffeStem(nn.Module):
    """The first convolution of a ResNet with the max pooling of Caffe's model."""

    def __init__(self, conv1: nn.Module) -> None:
        super().__init__()
        self.conv1 = conv1

    def forward(self, pixels: Tensor) -> Tensor:
        """Return maps [B, 64, h, w] of pictures [B, 3, H, W]."""
        return max_pool2d(
            torch.relu(self.conv1(pixels)), kernel_size=3, stride=2, padding=0, ceil_mode=True
        )


def caffe_anchors() -> Tensor:
    """Return the 12 anchors of the cell at the top left,
    [12, 4] left, top, right, bottom, of any reals.

    Caffe's boxes include their last pixel; right and bottom are one more here, so that a width is
    right - left.
    """
    anchors = []
    for ratio in _RATIOS:
        width = round((_STRIDE**2 / ratio) ** 0.5)
        height = round(width * ratio)  # of halves the even one, as numpy has it
        corner = torch.tensor([width / 2, height / 2])
        anchors += [torch.cat([-scale * corner, scale * corner]) + _STRIDE / 2 for scale in _SCALES]
    return torch.stack(anchors)


class AttributeHead(nn.Module):
    """Attributes from a region's vector and class (Anderson et al. 2018, section 3.1)."""

    def __init__(self, *, classes: int, attributes: int, size: int, none: bool) -> None:
        """Build it for vectors of length ``size``.

        ``none`` adds a score of "no attribute", in the last place.
        """
        super().__init__()
        self.attributes = attributes
        self.embedding = nn.Embedding(classes + 1, 256)  # the background has one, too
        self.hidden = nn.Linear(size + 256, 512)
        self.scores = nn.Linear(512, attributes + none)

    def forward(self, vectors: Tensor, classes: Tensor) -> Tensor:
        """Return probabilities [R, attributes] for vectors [R, size] and classes [R]."""
        hidden = torch.relu(self.hidden(torch.cat([vectors, self.embedding(classes)], 1)))
        probabilities: Tensor = self.scores(hidden).softmax(-1)
        return probabilities[:, : self.attributes]


def load(
    model: nn.Module,
    path: Path | None,  # .safetensors, .pth, .bin or .pkl
    *,
    key_map: Mapping[str, str],  # prefix of a name in the file -> prefix of the name in `model`
    # prefixes of our names that are left out with a message where `model` lacks them
    unused: Sequence[str] = (),
    # the file has the background before the classes; ours has it after them
    background_first: bool = False,
) -> str:
    """Load weights, strictly, and return their hash; None leaves the random ones."""
    if path is None:
        for name, value in model.named_buffers():
            # The norms are frozen and normalize nothing: values of random residual branches would
            # grow with every block until no box is left inside the picture.
            if name.endswith("conv3.norm.weight"):
                value.mul_(0.1)
        return weights_hash(model)
    tensors = _released_tensors(path, key_map)
    if background_first:
        _background_last(tensors)
    try:
        left_out = check_layout(model, tensors, unused=unused)
    except ValueError as error:
        raise FeatureError(f"{path}: {error}") from error
    if left_out:
        log.info(f"{path}: {len(left_out)} tensors are not used: {left_out[0]} to {left_out[-1]}")
    model.load_state_dict(
        {name: tensor for name, tensor in tensors.items() if name not in left_out}, strict=False
    )
    return sha256_file(path)


def _released_tensors(path: Path, key_map: Mapping[str, str]) -> dict[str, Tensor]:
    """Return the tensors of a file of weights by their names in our detector."""
    content = read_tensors(path, FeatureError)
    tensors = {}
    try:
        for name, value in content.get("model", content).items():
            tensors[mapped(name, key_map)] = torch.as_tensor(value)
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise DamagedFeatures(
            f"{path}: holds more than tensors by name ({first_line(error)}); fetch it again"
        ) from error
    return tensors


def mapped(name: str, key_map: Mapping[str, str]) -> str:
    """Return the name that a tensor of a file has in our detector."""
    for old, new in key_map.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def check_layout(
    model: nn.Module, tensors: Mapping[str, Tensor], *, unused: Sequence[str] = ()
) -> list[str]:
    """Compare names and shapes of tensors with those of a detector;
    return the names that are not loaded.

    What a detector makes from its configuration (pixel means, anchors) may be in a file, and must
    then be the same within rounding of pixels; its shape differs between versions.
    """
    buffers = dict(model.named_buffers())
    for name, own in model.state_dict().items():
        shape = list(tensors[name].shape) if name in tensors else "missing"
        if shape != list(own.shape):
            raise ValueError(
                f"{name!r} is {shape} instead of {list(own.shape)}; name it in `key_map`, or "
                "correct `classes`, `attributes` or `detector`"
            )
    left_out = sorted(set(tensors) - set(model.state_dict()))
    for name in left_out:
        if name in buffers:
            value = tensors[name].float().flatten()
            own = buffers[name].cpu().flatten()
            fits = len(value) == len(own) and torch.allclose(value, own, atol=1e-2)
        else:
            fits = name.startswith(tuple(unused))
        if not fits:
            raise ValueError(
                f"{name!r} holds other numbers than the detector of these settings, or is none of "
                "its names; correct `anchors` or `detector`, or name it in `key_map`"
            )
    return left_out


def _background_last(tensors: dict[str, Tensor]) -> None:
    """Reorder tensors of a file with background and "no attribute" first."""
    rolled = (f"{_PREDICTOR}cls_score.", "attribute_head.embedding.", "attribute_head.scores.")
    for name in tensors:
        if name.startswith(rolled):
            tensors[name] = tensors[name].roll(-1, 0)
    scores = tensors.get(f"{_PREDICTOR}cls_score.bias")
    for name in (f"{_PREDICTOR}bbox_pred.weight", f"{_PREDICTOR}bbox_pred.bias"):
        # Caffe's has four deltas of the background, too, which are never applied.
        if scores is not None and name in tensors and len(tensors[name]) == 4 * len(scores):
            tensors[name] = tensors[name][4:]
