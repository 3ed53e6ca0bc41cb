"""What a model looked at for each word of a caption, for every kind that has attention over the image.

An attention over the image passes its weights through an identity named `weights`, which torch's own hooks read; a
model lists these identities in `attention_modules()`. For other models a paper names the attentions and how their
weights follow from queries and keys; nothing of the model is changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from recap.core.errors import ConfigError
from recap.models.base import Captioner
from recap.models.images import Images
from recap.models.registry import kinds_with_attention_maps
from recap.models.state import Memory
from recap.nn.attention import Attention, KeyValue, MultiHeadAttention
from recap.nn.masks import MASKED_SCORE
from recap.nn.rows import Rows
from recap.settings.models import EXPLAINED


@torch.no_grad()
def attention_maps(model: Captioner, tokens: Tensor, memory: Memory) -> Tensor:
    """Return the attention over the image's vectors under teacher forcing, [B, C, T, N]; rows sum to 1.

    Heads and layers are averaged. Tokens [B, C, T] begin with <bos>; row t is the attention behind token t + 1.
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


Weights: TypeAlias = Callable[[Any, Rows, KeyValue, Tensor | None], Tensor]


@dataclass(frozen=True)
class Note:
    """What else is said of a caption: a value for each word, or lines about the whole."""

    title: str  #: what it is
    values: Sequence[float] = ()  #: one for each word, 0 to 1; empty where there are lines
    lines: Sequence[str] = ()  #: texts


def no_notes(_model: Captioner, _images: Images, _tokens: Tensor, _words: Sequence[str]) -> list[Note]:
    """Say nothing else."""
    return []


def head_weights(attention: MultiHeadAttention, query: Rows, key_value: KeyValue, mask: Tensor | None) -> Tensor:
    """Return the weights of scaled dot-product attention, [B, C, H, T, N]; mask as of `Attention.forward`."""
    q, k = query.map(attention.query).split_heads(attention.heads), key_value[0]
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    return (scores if mask is None else scores.masked_fill(~mask[:, :, None], MASKED_SCORE)).softmax(-1)


@dataclass(frozen=True)
class Explained:
    """How a kind of model is explained, beside or in place of the weights that it passes through identities."""

    #: model -> its attentions over the main stream of the image; None: `attention_modules` are read
    attentions: Callable[[Any], Sequence[Attention]] | None = None
    weights: Weights = head_weights  #: weights of one of them, from what it is called with, [B, C, H, T, N]
    #: model, one image, its caption [1, 1, T] with <bos>, the words -> what else is said
    notes: Callable[[Any, Images, Tensor, Sequence[str]], list[Note]] = no_notes


@torch.no_grad()
def explained(
    kind: str, model: Captioner, images: Images, tokens: Tensor, words: Sequence[str]
) -> tuple[Tensor, list[Note]]:
    """Return the attention behind each of T words over the vectors of one image, [T, N], and what else is said.

    Heads and layers are averaged; rows sum to 1 over all vectors that the model reads. `tokens` [1, 1, T + 1] are <bos>
    and the caption.
    """
    how: Explained = EXPLAINED.get(kind) if kind in EXPLAINED.names() else Explained()
    memory = model.encode(images)
    if how.attentions is None:
        maps = attention_maps(model, tokens, memory)
    else:
        maps = _watched(model, how.attentions(model), how.weights, tokens, memory)
    return maps[0, 0, : len(words)], how.notes(model, images, tokens, words)


def _watched(
    model: Captioner, attentions: Sequence[Attention], weights: Weights, tokens: Tensor, memory: Any
) -> Tensor:
    """Return the mean weights of attentions, [B, C, T, N], while a model reads captions."""
    found: list[Tensor] = []

    def watch(module: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        found.append(weights(module, inputs[0], inputs[1], options.get("attn_mask")).mean(2))

    with ExitStack() as hooks:
        for attention in attentions:
            hooks.enter_context(attention.register_forward_pre_hook(watch, with_kwargs=True))
        model.decode(tokens, memory)
    if len(found) != len(attentions):
        raise ConfigError(f"{type(model).__name__}: {len(attentions)} attentions were called {len(found)} times")
    return torch.stack(found).mean(0)
