"""X-LAN and X-Transformer as released code computes them,
on the weights of our models: the reference of their figures.

Every caption or sample is a row of its own, with copies of its image's vectors: X-LAN copies them
after encoding when it learns captions, everything else before. q * k is laid out for every pair of
query and vector. X-LAN makes its logits word by word. Decoding keeps projected keys, concatenates
and reorders those of the words by copying, and sorts all scores. R rows (images times captions), T
words, N vectors, D width, H heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import celu, glu, group_norm, linear

from benchmarks.plain import PAD
from recap.papers.xlan.model import FeatureMix, Projection, XLinear

State = dict[str, Tensor]  # of rows; what begins with "fixed" is never reordered
Start = Callable[[Any, State], State]  # what an encoder gave -> the state before the first word
Step = Callable[[Any, Tensor, State], tuple[Tensor, State]]


def product(of: nn.Linear, x: Tensor) -> Tensor:
    """W x + b as torch multiplies it."""
    return linear(x, of.weight, of.bias)


def project(of: Projection, x: Tensor) -> Tensor:
    """Linear, activation, group norm: [R, T, D] -> [R, H, T, K],
    laid out so that no q * k has to be copied."""
    y = of.activation(product(of.linear, x))
    heads = of.norm.num_groups
    y = group_norm(y.flatten(0, 1), heads, of.norm.weight, of.norm.bias, of.norm.eps).view_as(y)
    return y.view(*y.shape[:2], heads, y.shape[2] // heads).transpose(1, 2).contiguous()


def keys(of: XLinear, x: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values of [R, N, D]."""
    return project(of.key, x), project(of.value, x)


def attend(of: XLinear, query: Tensor, pair: tuple[Tensor, Tensor], visible: Tensor) -> Tensor:
    """Query [R, T, D] on keys and values [R, H, N, K]; visible [R, T or 1, N] -> [R, T, D]."""
    k, v = pair
    visible = visible[:, None]
    joint = project(of.query_key, query)[:, :, :, None] * k[:, :, None]  # [R, H, T, N, K]
    joint = of.dropout(torch.relu(product(of.joint, joint)))
    places = product(of.spatial, joint)[..., 0].masked_fill(~visible, -1e9).softmax(-1)
    share = visible[..., None].to(joint.dtype)
    channel = product(of.channel, (joint * share).sum(-2) / share.sum(-2)).sigmoid()
    out = project(of.query_value, query) * (places @ v) * channel
    return out.transpose(1, 2).flatten(2)


def mix(of: FeatureMix, g: Tensor, x: Tensor) -> Tensor:
    """norm(dropout(ReLU(W [g ; x])) + x), a copy of g beside every x."""
    return of.norm(
        of.dropout(torch.relu(product(of.linear, torch.cat([g.expand_as(x), x], -1)))) + x
    )


def mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of the real vectors, [R, N, D] -> [R, 1, D]."""
    return (x * mask[..., None]).sum(1, keepdim=True) / mask.sum(1)[:, None, None]


def repeat(state: State, times: int) -> State:
    """Copy every row."""
    return {name: value.repeat_interleave(times, 0) for name, value in state.items()}


def encode(model: Any, features: Tensor, mask: Tensor) -> State:
    """Encode the vectors [R, N, F] of rows with either model."""
    x = celu(product(model.feature_embedding, features), 1.3)
    encoder = getattr(model.encoder, "blocks", None)  # of X-LAN
    if encoder is None:
        x = model.feature_norm(x)
    x = model.feature_dropout(x)
    summaries = [mean(x, mask)]
    if encoder is not None:
        for block, own in zip(encoder, model.encoder.mixes, strict=True):
            g = model.encoder.dropout(attend(block, summaries[-1], keys(block, x), mask[:, None]))
            x = mix(own, g, x)
            summaries.append(g)
        g = model.encoder.norm(product(model.encoder.projection, torch.cat(summaries, -1)))
    else:
        for layer in model.encoder:
            g = layer.dropout(
                attend(layer.block, summaries[-1], keys(layer.block, x), mask[:, None])
            )
            x = update(layer.update, g, x)
            summaries.append(g)
        g = model.global_norm(product(model.global_projection, torch.cat(summaries, -1)))
    return {"fixed.x": x, "fixed.mask": mask, "fixed.g": g}


def update(of: Any, g: Tensor, x: Tensor) -> Tensor:
    """Mix, then the feed-forward layer with its residual and norm."""
    x = mix(of.mix, g, x)
    residual, feed = of.around_feed_forward, of.feed_forward
    hidden = product(feed.outer, feed.dropout(torch.relu(product(feed.inner, x))))
    return residual.norm(x + residual.dropout(hidden))


def xlan_start(model: Any, encoded: State) -> State:
    """Keys of the decoder's block, projected once, and a zero state."""
    k, v = keys(model.attention, encoded["fixed.x"])
    zero = torch.zeros_like(encoded["fixed.g"][:, 0])
    return encoded | {"fixed.k": k, "fixed.v": v, "h": zero, "c": zero, "context": zero}


def xlan_step(model: Any, words: Tensor, state: State) -> tuple[Tensor, State]:
    """Words [R] -> scores [R, V] and the new state."""
    word = model.word_dropout(celu(model.word_embedding(words), 1.3))
    context = state["fixed.g"][:, 0] + model.context_dropout(state["context"])
    h, c = nn.LSTMCell.forward(model.lstm, torch.cat([word, context], -1), (state["h"], state["c"]))
    pair = state["fixed.k"], state["fixed.v"]
    attended = attend(model.attention, h[:, None], pair, state["fixed.mask"][:, None])[:, 0]
    joined = model.attended.norm(
        product(model.attended.linear, torch.cat([h, model.attention_dropout(attended)], -1))
    )
    context = glu(product(model.attended.gate, torch.cat([joined, h], -1)), -1)
    return product(model.output, model.output_dropout(context)), state | {
        "h": h,
        "c": c,
        "context": context,
    }


def by_word(start: Start, step: Step, model: Any, words: Tensor, encoded: State) -> Tensor:
    """Teacher forcing word by word: [R, T] -> scores [R, T, V]."""
    state, scores = start(model, encoded), []
    for word in words.unbind(1):
        score, state = step(model, word, state)
        scores.append(score)
    return torch.stack(scores, 1)


def x_transformer_start(model: Any, encoded: State) -> State:
    """Keys of the image in every layer, projected once, and no words."""
    x, state = encoded["fixed.x"], dict(encoded)
    state["said"] = torch.zeros(len(x), 0, dtype=torch.bool)
    state["sum"] = torch.zeros_like(encoded["fixed.g"])
    for index, layer in enumerate(model.decoder):
        state[f"fixed.{index}.k"], state[f"fixed.{index}.v"] = keys(layer.image, x)
        state[f"{index}.k"], state[f"{index}.v"] = keys(layer.words, x[:, :0])
    return state


def x_transformer_step(model: Any, words: Tensor, state: State) -> tuple[Tensor, State]:
    """Words [R] -> scores [R, V] and the new state, its caches longer by a copy."""
    place, state = state["said"].shape[1], dict(state)
    real = (words[:, None] != PAD) | (place == 0)
    said = state["said"] = torch.cat([state["said"], real], 1)
    x = _embedded(model, words[:, None], place)
    state["sum"] = state["sum"] + x * real[..., None]
    g = _first(model, state, state["sum"] / said.sum(1)[:, None, None])
    summaries = [g]
    for index, layer in enumerate(model.decoder):
        for name, new in zip("kv", keys(layer.words, x), strict=True):
            state[f"{index}.{name}"] = torch.cat([state[f"{index}.{name}"], new], 2)
        g, x = _layer(layer, g, x, state, index, said[:, None])
        summaries.append(g)
    return _read_off(model, summaries)[:, 0], state


def x_transformer_scores(model: Any, words: Tensor, encoded: State) -> Tensor:
    """Teacher forcing: [R, T] -> scores [R, T, V]."""
    state, length = x_transformer_start(model, encoded), words.shape[1]
    real = words != PAD
    visible = real[:, None] & torch.ones(length, length, dtype=torch.bool).tril()
    x = _embedded(model, words, 0)
    share = visible.to(x.dtype)
    g = _first(model, state, share @ x / share.sum(-1, keepdim=True))
    summaries = [g]
    for index, layer in enumerate(model.decoder):
        state[f"{index}.k"], state[f"{index}.v"] = keys(layer.words, x)
        g, x = _layer(layer, g, x, state, index, visible)
        summaries.append(g)
    return _read_off(model, summaries)


def _embedded(model: Any, words: Tensor, place: int) -> Tensor:
    x = (
        model.word_embedding(words) * math.sqrt(model.d_model)
        + model.positions[place : place + words.shape[1]]
    )
    return model.word_dropout(model.word_norm(x))


def _first(model: Any, state: State, so_far: Tensor) -> Tensor:
    image, words = model.image_side, model.word_side
    a, b = (
        of.norm(celu(product(of.linear, x), 1.3))
        for of, x in ((image, state["fixed.g"]), (words, so_far))
    )
    return model.dropout(a * b)


def _layer(
    layer: Any, g: Tensor, x: Tensor, state: State, index: int, visible: Tensor
) -> tuple[Tensor, Tensor]:
    own, image = ((state[f"{p}{index}.k"], state[f"{p}{index}.v"]) for p in ("", "fixed."))
    y = x + layer.dropout(attend(layer.words, g, own, visible))
    seen = attend(layer.image, layer.words_norm(y), image, state["fixed.mask"][:, None])
    g = layer.image_norm(y + layer.dropout(seen))
    return g, x if layer.update is None else update(layer.update, g, x)


def _read_off(model: Any, summaries: list[Tensor]) -> Tensor:
    hidden = model.output_norm(glu(product(model.read_off, torch.cat(summaries, -1)), -1))
    return product(model.output, model.output_dropout(hidden))
