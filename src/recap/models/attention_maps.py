"""The attention over the image behind each token of a caption.

The hook is torch's own: an attention over the image passes its weights through an identity named `weights`; a model
that has such attentions lists these identities in `attention_modules()`.
"""

from __future__ import annotations

from contextlib import ExitStack

import torch
from torch import Tensor

from recap.core.errors import ConfigError
from recap.models.base import Captioner
from recap.models.registry import kinds_with_attention_maps
from recap.models.state import Memory


@torch.no_grad()
def attention_maps(model: Captioner, tokens: Tensor, memory: Memory) -> Tensor:
    """Return the attention over the image's vectors under teacher forcing, [B, C, T, N]; rows sum to 1.

    Heads are averaged, and so are layers where a model has several.

    Args:
        model: one with `attention_modules`.
        tokens: [B, C, T], beginning with <bos>; row t is the attention behind token t + 1.
        memory: of the images.
    """
    modules = model.attention_modules()
    if not modules:
        raise ConfigError(
            f"{type(model).__name__} does not expose attention weights; kinds of model that do: "
            f"{', '.join(kinds_with_attention_maps())}"
        )
    maps: list[Tensor] = []

    def collect(_module: object, _inputs: object, weights: Tensor) -> None:
        maps.append(weights.mean(2) if weights.dim() == 5 else weights)  # heads averaged

    with ExitStack() as hooks:
        for module in modules:
            hooks.enter_context(module.register_forward_hook(collect))
        model.decode(tokens, memory)
    whole = all(weights.shape[2] == tokens.shape[2] for weights in maps)  # one call per layer, else one per token
    return torch.stack(maps).mean(0) if whole else torch.cat(maps, 2)
