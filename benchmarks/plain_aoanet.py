"""AoANet as released code computes it, on the weights of our model: the reference of its figures.

Features are repeated for each caption and refined once per caption; the decoder makes its logits
word by word, with one product for keys and values. R rows (images times captions), T words, N
vectors, D width, H heads.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import glu, linear

from benchmarks.plain_x_linear import State, mean
from recap.nn.attention import MultiHeadAttention
from recap.papers.aoanet.model import AoANet


def heads(x: Tensor, of: MultiHeadAttention) -> Tensor:
    """[R, T, D] -> [R, H, T, K]."""
    return x.view(*x.shape[:2], of.heads, -1).transpose(1, 2)


def attend(
    of: MultiHeadAttention, query: Tensor, pair: tuple[Tensor, Tensor], hidden: Tensor
) -> Tensor:
    """Query [R, T, D], not yet projected, on keys and values [R, N, D].

    Hidden [R, 1, 1, N], True = hide.
    """
    q, k, v = (heads(x, of) for x in (linear(query, of.query.weight, of.query.bias), *pair))
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -1e9)
    return (of.dropout(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2)


def key_value(of: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values of [R, N, D]."""
    return linear(x, of.key.weight, of.key.bias), linear(x, of.value.weight, of.value.bias)


def encode(model: AoANet, features: Tensor, mask: Tensor) -> State:
    """Refine the vectors [R, N, F] of rows."""
    embedding = model.feature_embedding
    x = model.feature_dropout(torch.relu(linear(features, embedding.weight, embedding.bias)))
    x = x.masked_fill(~mask[..., None], 0)
    for layer in model.refiner:
        query, of = layer.around.norm(x), layer.attention
        found = attend(of.attention, query, key_value(of.attention, query), ~mask[:, None, None])
        joined = of.aoa.dropout(torch.cat([found, query], -1))
        x = x + layer.around.dropout(
            glu(linear(joined, of.aoa.linear.weight, of.aoa.linear.bias), -1)
        )
    x = model.refiner_norm(x)
    return {"fixed.x": x, "fixed.mask": mask, "fixed.g": mean(x, mask)}


def start(model: AoANet, encoded: State) -> State:
    """Keys of the decoder's attention, projected once, and a zero state."""
    k, v = key_value(model.attention, encoded["fixed.x"])
    zero = torch.zeros_like(encoded["fixed.g"][:, 0])
    return encoded | {"fixed.k": k, "fixed.v": v, "h": zero, "c": zero, "context": zero}


def step(model: AoANet, words: Tensor, state: State) -> tuple[Tensor, State]:
    """Words [R] -> scores [R, V] and the new state."""
    word = model.word_dropout(torch.relu(model.word_embedding(words)))
    joined = torch.cat([word, state["fixed.g"][:, 0] + model.context_dropout(state["context"])], -1)
    h, c = nn.LSTMCell.forward(model.lstm, joined, (state["h"], state["c"]))
    pair, hidden = (state["fixed.k"], state["fixed.v"]), ~state["fixed.mask"][:, None, None]
    attended = attend(model.attention, model.query_norm(h)[:, None], pair, hidden)[:, 0]
    context = glu(
        linear(torch.cat([attended, h], -1), model.aoa.linear.weight, model.aoa.linear.bias), -1
    )
    scores = linear(model.output_dropout(context), model.output.weight, model.output.bias)
    return scores, state | {"h": h, "c": c, "context": context}
