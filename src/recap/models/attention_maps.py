"""Where a model looks while it says each word of a caption.

The hook is torch's own: an attention over the image passes its weights through an identity named `weights`; a model
that offers such attentions lists them in `looks()`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from recap.core.errors import ConfigError
from recap.models.base import Captioner
from recap.models.state import Memory


@torch.no_grad()
def attention_maps(model: Captioner, tokens: Tensor, memory: Memory) -> Tensor:
    """Return the attention over the image's vectors under teacher forcing, [B, C, T, N]; rows sum to 1.

    Heads are averaged, and so are layers where a model has several.

    Args:
        model: an X-LAN, X-Transformer or Up-Down.
        tokens: [B, C, T], beginning with <bos>; row t is where the model looks to say word t + 1.
        memory: of the images.

    Raises:
        ConfigError: the model does not show where it looks.
    """
    if not hasattr(model, "looks"):
        raise ConfigError(
            f"a {type(model).__name__} does not show where it looks; take an X-LAN, X-Transformer, Up-Down"
        )
    seen: list[Tensor] = []

    def keep(_module: object, _inputs: object, weights: Tensor) -> None:
        seen.append(weights.mean(2) if weights.dim() == 5 else weights)  # heads averaged

    places = cast(Callable[[], list[nn.Identity]], model.looks)()
    handles = [place.register_forward_hook(keep) for place in places]
    try:
        model.decode(tokens, memory)
    finally:
        for handle in handles:
            handle.remove()
    whole = all(weights.shape[2] == tokens.shape[2] for weights in seen)  # a call a layer, else a call a word
    return torch.stack(seen).mean(0) if whole else torch.cat(seen, 2)
