"""The clustering matrices of each layer behind one image and one caption.

The hook is torch's own: a layer passes log C~ through an identity, which its model lists in `cluster_modules()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor

from recap.core.errors import ConfigError
from recap.models.base import Captioner
from recap.models.images import Images


@dataclass(frozen=True)
class ClusterMaps:
    """C~ of an image and a caption, by the number of the layer, counted from 1; empty where there are no clusters.

    Attributes:
        encoder: [M, M] of the cells as the model lays them out.
        decoder: [T, T] of the tokens.
    """

    encoder: Mapping[int, Tensor]
    decoder: Mapping[int, Tensor]


@torch.no_grad()
def cluster_maps(model: Captioner, images: Images, tokens: Tensor) -> ClusterMaps:
    """Return C~ of all layers under teacher forcing.

    Args:
        model: one with `cluster_modules`; others have no clusters, and the maps are empty.
        images: one image.
        tokens: one caption, [1, 1, T], beginning with <bos>.

    Raises:
        ConfigError: the batch has not one image and one caption.
    """
    if len(images) != 1 or tokens.shape[:2] != (1, 1):
        raise ConfigError(f"clusters are of one image and one caption, not of {len(images)} and {tokens.shape[1]}")
    found: dict[str, dict[int, Tensor]] = {"encoder": {}, "decoder": {}}
    with ExitStack() as hooks:
        for place, modules in getattr(model, "cluster_modules", dict)().items():
            for number, module in enumerate(modules, start=1):
                if module is not None:
                    hooks.enter_context(module.register_forward_hook(_keep(found[place], number)))
        model.decode(tokens, model.encode(images))
    return ClusterMaps(**found)


def _keep(found: dict[int, Tensor], number: int) -> Callable[..., None]:
    def hook(_module: object, _inputs: object, log_clusters: Tensor) -> None:
        found[number] = log_clusters[0, 0].exp()

    return hook
