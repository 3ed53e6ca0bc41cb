"""The network of bottom-up attention in plain functions of torch,
from its description and its weights' layout."""

import torch
from torch.nn.functional import conv2d, max_pool2d

BLOCKS = {"res2": 3, "res3": 4, "res4": 23, "res5": 3}
MEAN = [102.9801, 115.9465, 122.7717]


def region_vectors(weights, pixels, boxes):
    """Return vectors [R, 2048] of boxes [R, 4] of a picture,
    BGR [3, h, w]: the fifth stage over 14 x 14 cells."""
    from torchvision.ops import roi_pool

    maps = (pixels.float() - torch.tensor(MEAN)[:, None, None])[None]
    maps = max_pool2d(
        normed(weights, "backbone.stem.conv1", maps, stride=2, padding=3).relu(),
        3,
        2,
        ceil_mode=True,
    )
    for stage, stride in (("res2", 1), ("res3", 2), ("res4", 2)):
        maps = blocks(weights, f"backbone.{stage}", BLOCKS[stage], maps, stride=stride, dilation=1)
    crops = roi_pool(maps, [boxes], 14, 1 / 16)
    return blocks(weights, "roi_heads.res5", BLOCKS["res5"], crops, stride=1, dilation=2).mean(
        (2, 3)
    )


def blocks(weights, stage, count, maps, *, stride, dilation):
    """Return the maps after a stage; its first block has the stride,
    in both 1 x 1 convolutions that read its input."""
    for number in range(count):
        name, own = f"{stage}.{number}", stride if number == 0 else 1
        inner = normed(weights, f"{name}.conv1", maps, stride=own).relu()
        inner = normed(weights, f"{name}.conv2", inner, padding=dilation, dilation=dilation).relu()
        inner = normed(weights, f"{name}.conv3", inner)
        maps = (
            inner + (maps if number else normed(weights, f"{name}.shortcut", maps, stride=own))
        ).relu()
    return maps


def normed(weights, name, maps, **options):
    """Return a convolution and its frozen norm."""
    result = conv2d(maps, weights[f"{name}.weight"], **options)
    weight, bias, mean, variance = (
        weights[f"{name}.norm.{each}"][:, None, None]
        for each in ("weight", "bias", "running_mean", "running_var")
    )
    return (result - mean) / torch.sqrt(variance + 1e-5) * weight + bias
