"""What a model looked at for each word of a caption.

An attention over the image passes its weights through an identity named `weights`, which torch's
own hooks read; a model lists these identities in `attention_modules()`. What else a kind of model
says of a caption are notes, which its paper registers with `EXPLAINED`: a function of the model,
one image, its caption [1, 1, T] with <bos>, and the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor

from recap.core.errors import ConfigError
from recap.models.base import Captioner
from recap.models.images import Images
from recap.models.state import Memory
from recap.settings.models import EXPLAINED


@torch.no_grad()
def attention_maps(model: Captioner, tokens: Tensor, memory: Memory) -> Tensor:
    """Return the attention over the image's vectors under
    teacher forcing, [B, C, T, N]; rows sum to 1.

    Heads and layers are averaged. Tokens [B, C, T] begin with <bos>; row t is the attention behind
    token t + 1.
    """
    modules = model.attention_modules()
    if not modules:
        raise ConfigError(
            f"{type(model).__name__} does not expose attention weights; list their identities in "
            "`attention_modules` (docs/guides/add_a_model.md)"
        )
    maps: list[Tensor] = []

    def collect(_module: object, _inputs: object, weights: Tensor) -> None:
        maps.append(weights.mean(2) if weights.dim() == 5 else weights)  # heads averaged

    with ExitStack() as hooks:
        for module in modules:
            hooks.enter_context(module.register_forward_hook(collect))
        model.decode(tokens, memory)
    # one call per layer, else one per token
    whole = all(weights.shape[2] == tokens.shape[2] for weights in maps)
    return torch.stack(maps).mean(0) if whole else torch.cat(maps, 2)


@dataclass(frozen=True)
class Note:
    """What else is said of a caption: a value for each word, or lines about the whole."""

    title: str  #: what it is
    values: Sequence[float] = ()  #: one for each word, 0 to 1; empty where there are lines
    lines: Sequence[str] = ()  #: texts


@torch.no_grad()
def explained(
    kind: str, model: Captioner, images: Images, tokens: Tensor, words: Sequence[str]
) -> tuple[Tensor, list[Note]]:
    """Return the attention behind each of T words over the vectors
    of one image, [T, N], and what else is said.

    Rows sum to 1 over all vectors that the model reads. `tokens` [1, 1, T + 1] are <bos> and the
    caption.
    """
    maps = attention_maps(model, tokens, model.encode(images))
    notes = EXPLAINED.get(kind)(model, images, tokens, words) if kind in EXPLAINED.names() else []
    return maps[0, 0, : len(words)], notes
