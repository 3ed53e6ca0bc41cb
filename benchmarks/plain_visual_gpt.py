"""VisualGPT as released code computes it, on the weights of our model: the reference of its figure.

Every caption encodes its image and projects its levels' keys and values, every level projects the query anew, and every
place, padded ones among them, passes all layers and gets logits.
R rows (images times captions), T words, N vectors, L levels, D width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, gelu, linear

from benchmarks.plain import PAD
from benchmarks.plain_m2 import product
from recap.papers.visualgpt.layers import VisualBlock
from recap.papers.visualgpt.model import VisualGpt


def attend(of: nn.Module, query: Tensor, source: Tensor, hidden: Tensor, dropped: float = 0.0) -> Tensor:
    """Query [R, T, D] on source [R, N, D], projected here; hidden [R or 1, 1, T or 1, N], True = hide."""
    sides = (product(of.query, query), product(of.key, source), product(of.value, source))
    q, k, v = (x.view(*x.shape[:2], of.heads, -1).transpose(1, 2) for x in sides)
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -1e4)
    weights = dropout(scores.softmax(-1), dropped, of.training)
    return product(of.output, (weights @ v).transpose(1, 2).flatten(2))


def encode(model: VisualGpt, features: Tensor, mask: Tensor) -> list[Tensor]:
    """Features [R, N, F] -> L levels [R, N, D]."""
    x = gelu(product(model.feature_embedding, features), approximate="tanh")
    x, levels = model.feature_norm(model.feature_dropout(x)), []
    for layer in model.encoder:
        around, after, inner = layer.around_attention, layer.around_feed_forward, layer.feed_forward
        x = around.norm(x + around.dropout(attend(layer.attention, x, x, ~mask[:, None, None])))
        found = product(inner.outer, inner.dropout(torch.relu(product(inner.inner, x))))
        x = after.norm(x + after.dropout(found))
        levels.append(x)
    return levels


def block(of: VisualBlock, x: Tensor, levels: list[Tensor], later: Tensor, hidden: Tensor, real: Tensor) -> Tensor:
    """One block of words x [R, T, D]; `real` [R, T, 1] is 1 where a word is no padding."""
    normed = of.attention_norm(x)
    state = of.dropout(x + attend(of.attention, normed, normed, later))
    gate, total = of.fusion.gate, torch.zeros_like(state)
    for level, learnt in zip(levels, gate.gates, strict=True):
        query, source = of.attention_norm(state), of.attention_norm(level)
        seen = attend(of.cross, query, source, hidden, of.cross.dropout.p)
        alpha = product(learnt, torch.cat([state, seen], -1)).sigmoid()
        language, visual = alpha * (alpha > gate.tau), (1 - alpha) * (alpha < 1 - gate.tau)
        total = total + language * state + visual * seen
    fused = total / math.sqrt(len(levels)) * real
    inner = of.feed_forward
    found = product(inner.outer, gelu(product(inner.inner, of.feed_forward_norm(fused)), approximate="tanh"))
    return of.dropout(fused + found) * real


def scores(model: VisualGpt, words: Tensor, levels: list[Tensor], mask: Tensor) -> Tensor:
    """Teacher forcing: [R, T] -> scores [R, T, V]."""
    length, real = words.shape[1], (words != PAD)[..., None]
    later = torch.ones(length, length, dtype=torch.bool).triu(1) | (words == PAD)[:, None, None]
    x = model.decoder.word_embedding(words) + model.decoder.position_embedding.weight[:length]
    for of in model.decoder.blocks:
        x = block(of, x, levels, later, ~mask[:, None, None], real)
    return linear(model.decoder.norm(x), model.decoder.word_embedding.weight)
