"""VisualGPT as released code computes it, on the weights of our model: the reference of its figure.

Every caption encodes its image and projects its levels' keys and values, every level projects the
query anew, and every place, padded ones among them, passes all layers and gets logits. Decoding
keeps keys and values of the words, which move with their beams by copying, and projects those of
all levels anew for every beam and word. R rows (images times captions), T words, N vectors, L
levels, D width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, gelu, linear

from benchmarks.plain import PAD
from benchmarks.plain_m2 import product
from benchmarks.plain_x_linear import State
from recap.papers.visualgpt.model import VisualBlock, VisualGpt


def pair_of(of: nn.Module, source: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values of [R, N, D]."""
    return product(of.key, source), product(of.value, source)


def attend(
    of: nn.Module,
    query: Tensor,
    pair: tuple[Tensor, Tensor],
    hidden: Tensor | None,
    dropped: float = 0.0,
) -> Tensor:
    """Query [R, T, D] on keys and values [R, N, D]; hidden [R or 1, 1, T or 1, N], True = hide."""
    q, k, v = (
        x.view(*x.shape[:2], of.heads, -1).transpose(1, 2)
        for x in (product(of.query, query), *pair)
    )
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    scores = scores if hidden is None else scores.masked_fill(hidden, -1e4)
    weights = dropout(scores.softmax(-1), dropped, of.training)
    return product(of.output, (weights @ v).transpose(1, 2).flatten(2))


def encode(model: VisualGpt, features: Tensor, mask: Tensor) -> list[Tensor]:
    """Features [R, N, F] -> L levels [R, N, D]."""
    x = gelu(product(model.feature_embedding, features), approximate="tanh")
    x, levels = model.feature_norm(model.feature_dropout(x)), []
    for layer in model.encoder:
        around, after, inner = layer.around_attention, layer.around_feed_forward, layer.feed_forward
        x = around.norm(
            x
            + around.dropout(
                attend(layer.attention, x, pair_of(layer.attention, x), ~mask[:, None, None])
            )
        )
        found = product(inner.outer, inner.dropout(torch.relu(product(inner.inner, x))))
        x = after.norm(x + after.dropout(found))
        levels.append(x)
    return levels


def block(
    of: VisualBlock,
    x: Tensor,
    levels: list[Tensor],
    later: Tensor | None,
    hidden: Tensor,
    real: Tensor | float,
    past: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """One block of words x [R, T, D], and keys and values, `past` with them.

    `real` [R, T, 1] is 0 at padding.
    """
    normed = of.attention_norm(x)
    own = pair_of(of.attention, normed)
    own = (
        own if past is None else (torch.cat([past[0], own[0]], 1), torch.cat([past[1], own[1]], 1))
    )
    state = of.dropout(x + attend(of.attention, normed, own, later))
    gate, total = of.fusion.gate, torch.zeros_like(state)
    for level, learnt in zip(levels, gate.gates, strict=True):
        source = pair_of(of.cross, of.attention_norm(level))
        seen = attend(of.cross, of.attention_norm(state), source, hidden, of.cross.dropout.p)
        alpha = product(learnt, torch.cat([state, seen], -1)).sigmoid()
        language, visual = alpha * (alpha > gate.tau), (1 - alpha) * (alpha < 1 - gate.tau)
        total = total + language * state + visual * seen
    fused = total / math.sqrt(len(levels)) * real
    inner = of.feed_forward
    found = product(
        inner.outer, gelu(product(inner.inner, of.feed_forward_norm(fused)), approximate="tanh")
    )
    return of.dropout(fused + found) * real, own


def scores(model: VisualGpt, words: Tensor, levels: list[Tensor], mask: Tensor) -> Tensor:
    """Teacher forcing: [R, T] -> scores [R, T, V]."""
    length, real = words.shape[1], (words != PAD)[..., None]
    later = torch.ones(length, length, dtype=torch.bool).triu(1) | (words == PAD)[:, None, None]
    x = model.decoder.word_embedding(words) + model.decoder.position_embedding.weight[:length]
    for of in model.decoder.blocks:
        x, _ = block(of, x, levels, later, ~mask[:, None, None], real)
    return linear(model.decoder.norm(x), model.decoder.word_embedding.weight)


def start(model: VisualGpt, features: Tensor, mask: Tensor) -> State:
    """Encode rows [R, N, F]; no words."""
    levels = encode(model, features, mask)
    state = {f"fixed.{number}": level for number, level in enumerate(levels)} | {"fixed.g": mask}
    none = levels[0][:, :0]
    return state | {
        f"{name}{number}": none for name in "kv" for number in range(len(model.decoder.blocks))
    }


def step(model: VisualGpt, words: Tensor, state: State) -> tuple[Tensor, State]:
    """Words [R] -> scores [R, V] and the new state, its caches longer by a copy."""
    state, place = dict(state), state["k0"].shape[1]
    levels = [state[f"fixed.{number}"] for number in range(len(model.encoder))]
    hidden = ~state["fixed.g"][:, None, None]
    x = (
        model.decoder.word_embedding(words[:, None])
        + model.decoder.position_embedding.weight[place]
    )
    for number, of in enumerate(model.decoder.blocks):
        x, own = block(of, x, levels, None, hidden, 1.0, (state[f"k{number}"], state[f"v{number}"]))
        state[f"k{number}"], state[f"v{number}"] = own
    return linear(model.decoder.norm(x[:, 0]), model.decoder.word_embedding.weight), state
