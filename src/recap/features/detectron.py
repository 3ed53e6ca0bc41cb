"""Detectors of detectron2: built from its own configurations, with weights that hold tensors alone.

detectron2 is no dependency: it has no wheels. docs/guides/detectron2.md says how it is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from recap.core.errors import ConfigError, DamagedFeatures, FeatureError, MissingFeatures, first_line
from recap.core.hashing import derived_seed, sha256_file
from recap.core.log import log
from recap.features.tensors import read_tensors
from recap.features.weights import weights_hash


def configured(name: str, changes: Mapping[str, Any]) -> Any:
    """Return a configuration of detectron2's model zoo with changes, for random weights."""
    try:
        from detectron2 import model_zoo
    except ImportError as error:
        raise ConfigError(
            f"regions and segments need detectron2, which cannot be imported ({error}): build it as "
            "docs/guides/detectron2.md says, run this rule with `snakemake --sdm conda`, or import extracted features"
        ) from error
    config = model_zoo.get_config(name)
    config.merge_from_list([item for pair in changes.items() for item in pair])
    config.MODEL.WEIGHTS = ""
    return config


def built(config: Any, *, seed: int, device: torch.device) -> Any:
    """Build a detector with seeded random weights, in evaluation mode."""
    from detectron2.modeling import build_model

    config.MODEL.DEVICE = device.type
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "detector"))
        return build_model(config).eval()


def dilated_stage(config: Any) -> torch.nn.Module:
    """Return the fifth stage of a ResNet with stride 1 and dilation 2, [R, C / 2, h, w] -> [R, C, h, w]."""
    from detectron2.modeling.backbone.resnet import BottleneckBlock, ResNet

    resnet = config.MODEL.RESNETS
    blocks = ResNet.make_stage(
        BottleneckBlock,
        3,
        stride_per_block=[1, 1, 1],
        in_channels=resnet.RES2_OUT_CHANNELS * 4,
        out_channels=resnet.RES2_OUT_CHANNELS * 8,
        bottleneck_channels=resnet.NUM_GROUPS * resnet.WIDTH_PER_GROUP * 8,
        num_groups=resnet.NUM_GROUPS,
        norm=resnet.NORM,
        stride_in_1x1=resnet.STRIDE_IN_1X1,
        dilation=2,
    )
    return torch.nn.Sequential(*blocks)


def load(
    model: torch.nn.Module,
    path: Path | None,
    *,
    key_map: Mapping[str, str],
    unused: Sequence[str] = (),
    background_first: bool = False,
) -> str:
    """Load weights, strictly, and return their hash; None leaves the random ones.

    Args:
        model: the detector.
        path: .safetensors, .pth, .bin or .pkl.
        key_map: prefix of a name in the file -> prefix of the name in ``model``.
        unused: prefixes of names, after ``key_map``, that are left out with a message where ``model`` lacks them.
        background_first: the file has the background before the classes; ours has it after them.
    """
    if path is None:
        _tame(model)
        return weights_hash(model)
    if not path.is_file():
        raise MissingFeatures(f"{path}: no such weights file; put it there, or correct `weights` of the features")
    given = {mapped(name, key_map): tensor for name, tensor in _tensors(path).items()}
    if background_first:
        _background_last(given)
    try:
        left_out = check_layout(model, given, unused=unused)
    except ValueError as error:
        raise FeatureError(f"{path}: {error}") from error
    if left_out:
        log.info(f"{path}: {len(left_out)} tensors are not used: {left_out[0]} to {left_out[-1]}")
    model.load_state_dict({name: tensor for name, tensor in given.items() if name not in left_out}, strict=False)
    return sha256_file(path)


def check_layout(model: torch.nn.Module, given: Mapping[str, torch.Tensor], *, unused: Sequence[str] = ()) -> list[str]:
    """Compare names and shapes of tensors with those of a detector; return the names that are not loaded.

    What a detector makes from its configuration (pixel means, anchors) may be in a file, and must then be the same.
    """
    expected, made = model.state_dict(), dict(model.named_buffers())
    for name in expected:
        if name not in given:
            raise ValueError(f"lacks {name!r} of the detector; name it in `key_map`, or correct `detector`")
        if given[name].shape != expected[name].shape:
            raise ValueError(
                f"{name!r} is {list(given[name].shape)} instead of {list(expected[name].shape)}; correct "
                "`classes`, `attributes` or `detector`"
            )
    left_out = sorted(set(given) - set(expected))
    for name in left_out:
        if name in made and not _equal(given[name], made[name].cpu()):
            raise ValueError(
                f"{name!r} holds other numbers than the detector of these settings; correct `anchors` or `detector`"
            )
        if name not in made and not name.startswith(tuple(unused)):
            raise ValueError(f"has {name!r}, which the detector lacks; name it in `key_map`")
    return left_out


def _equal(given: torch.Tensor, made: torch.Tensor) -> bool:
    """Return whether two tensors hold the same numbers, within rounding of pixels; shapes differ between versions."""
    return given.numel() == made.numel() and torch.allclose(given.float().flatten(), made.flatten(), atol=1e-2)


def _background_last(given: dict[str, torch.Tensor]) -> None:
    """Bring tensors of a file whose first class is the background, and first attribute "none", into our order."""
    rolled = ("roi_heads.box_predictor.cls_score.", "attribute_head.embedding.", "attribute_head.scores.")
    for name in given:
        if name.startswith(rolled):
            given[name] = given[name].roll(-1, 0)
    scores = given.get("roi_heads.box_predictor.cls_score.bias")
    for name in ("roi_heads.box_predictor.bbox_pred.weight", "roi_heads.box_predictor.bbox_pred.bias"):
        # Caffe's has four deltas of the background, too, which are never applied.
        if scores is not None and name in given and len(given[name]) == 4 * len(scores):
            given[name] = given[name][4:]


def _tame(model: torch.nn.Module) -> None:
    """Scale random residual branches down: their norms are frozen and normalize nothing, so that values would grow with
    every block until no box is left inside the picture."""
    for name, value in model.named_buffers():
        if name.endswith("conv3.norm.weight"):
            value.mul_(0.1)


def mapped(name: str, key_map: Mapping[str, str]) -> str:
    """Return the name that a tensor of a file has in our detector."""
    for old, new in key_map.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file, of which no code is run."""
    found = read_tensors(path, DamagedFeatures)
    try:
        return {name: torch.as_tensor(value) for name, value in found.get("model", found).items()}
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise DamagedFeatures(
            f"{path}: holds more than tensors by name ({first_line(error)}); fetch it again"
        ) from error
