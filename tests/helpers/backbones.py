"""A small backbone of timm with random weights, and settings for its grid features."""

import torch

from recap.features.grid import Backbone
from recap.settings.features import GridFeatures

CPU = torch.device("cpu")


def spec(**changes):
    small = {
        "backbone": "test_resnet",
        "weights": "random",
        "image_size": 64,
        "grid": 2,
        "batch_size": 2,
        "shard_size": 3,
    }
    return GridFeatures(kind="grid", **{**small, **changes})


def backbone(**changes):
    return Backbone(spec(**changes), weights=None, device=CPU)


def tensors_of(net):
    return {name: tensor.contiguous() for name, tensor in net.model.state_dict().items()}
