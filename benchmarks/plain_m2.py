"""M2 as released code computes it, on the weights of our model: the reference of its figures.

Learning: every caption encodes its image, every place gets logits. Decoding: beams are rows of
their own; the inputs of the words so far are kept, so that their keys and values are projected anew
for each word, and so are those of all encoder levels, for every beam; the features, which nothing
reads any more, are moved with the beams; all scores are sorted. In self-critical training the
search keeps its graph. R rows (images times captions or beams), T words, N vectors, L levels, D
width, H heads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

from benchmarks.plain import BOS, EOS, PAD
from recap.nn.attention import MultiHeadAttention
from recap.nn.fast import Linear
from recap.papers.m2.model import M2, MemoryAttention, MeshedDecoderLayer


def product(of: Linear, x: Tensor) -> Tensor:
    """W x + b as torch multiplies it."""
    return linear(x, of.weight, of.bias)


def heads(x: Tensor, of: MultiHeadAttention) -> Tensor:
    """[R, T, H * K] -> [R, H, T, K]."""
    return x.view(*x.shape[:2], of.heads, -1).transpose(1, 2)


def attend(of: MultiHeadAttention, query: Tensor, source: Tensor, hidden: Tensor | None) -> Tensor:
    """Query [R, T, D] on source [R, N, D], projected here.

    Hidden [R or 1, 1, T or 1, N], True = hide.
    """
    k, v = product(of.key, source), product(of.value, source)
    if isinstance(of, MemoryAttention):
        memory = (
            of.memory_key * math.sqrt(of.memory_key.shape[-1] // of.heads),
            of.memory_value * math.sqrt(of.slots),
        )
        k, v = (
            torch.cat([x, m.expand(len(x), -1, -1)], 1) for x, m in zip((k, v), memory, strict=True)
        )
    q, k, v = (heads(x, of) for x in (product(of.query, query), k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if hidden is not None:
        scores[..., : hidden.shape[-1]] = scores[..., : hidden.shape[-1]].masked_fill(
            hidden, -torch.inf
        )
    return product(of.output, (scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def add_norm(of, x: Tensor, found: Tensor) -> Tensor:
    """Norm of x plus what was found."""
    return of.norm(x + of.dropout(found))


def feed_forward(layer, x: Tensor) -> Tensor:
    """The last sub-layer of either layer."""
    of = layer.feed_forward
    found = product(of.outer, of.dropout(torch.relu(product(of.inner, x))))
    return add_norm(layer.around_feed_forward, x, found)


def encode(model: M2, features: Tensor, mask: Tensor) -> Tensor:
    """Features [R, N, F] -> levels [R, L, N, D]."""
    x = model.feature_norm(
        model.feature_dropout(torch.relu(product(model.feature_embedding, features)))
    )
    hidden, levels = ~mask[:, None, None], []
    for layer in model.encoder:
        x = feed_forward(
            layer, add_norm(layer.around_attention, x, attend(layer.attention, x, x, hidden))
        )
        levels.append(x)
    return torch.stack(levels, 1)


def decoder_layer(
    layer: MeshedDecoderLayer,
    x: Tensor,
    words: Tensor,
    later: Tensor | None,
    levels: Tensor,
    hidden: Tensor,
) -> Tensor:
    """One layer of words x [R, T, D], which see `words` [R, T', D] and all levels [R, L, N, D]."""
    s = add_norm(layer.around_attention, x, attend(layer.attention, x, words, later))
    meshed = torch.zeros_like(s)
    for level, gate in zip(levels.unbind(1), layer.mesh.gates, strict=True):
        found = add_norm(layer.around_cross, s, attend(layer.cross, s, level, hidden))
        meshed = meshed + product(gate, torch.cat([s, found], -1)).sigmoid() * found
    return feed_forward(layer, meshed / math.sqrt(levels.shape[1]))


def scores(model: M2, words: Tensor, levels: Tensor, mask: Tensor) -> Tensor:
    """Teacher forcing: [R, T] -> log-probabilities [R, T, V]."""
    length = words.shape[1]
    later = torch.ones(length, length, dtype=torch.bool).triu(1) | (words == PAD)[:, None, None]
    x = model.word_embedding(words) + model.positions[:length]
    for layer in model.decoder:
        x = decoder_layer(layer, x, x, later, levels, ~mask[:, None, None])
    return product(model.output, x).log_softmax(-1)


@dataclass
class Rows:
    """What moves with the beams: the features,
    and the inputs of each layer for the words so far, [R, T, D]."""

    features: Tensor
    inputs: list[Tensor]

    def moved(self, rows: Tensor) -> Rows:
        """Return the rows that continue `rows`, as copies."""
        return Rows(
            self.features.index_select(0, rows), [x.index_select(0, rows) for x in self.inputs]
        )


def step(model: M2, words: Tensor, state: Rows, levels: Tensor, mask: Tensor) -> Tensor:
    """Words [R] -> log-probabilities of the next, [R, V]; the state gets longer by them."""
    x = (model.word_embedding(words) + model.positions[state.inputs[0].shape[1]])[:, None]
    for index, layer in enumerate(model.decoder):
        state.inputs[index] = torch.cat([state.inputs[index], x], 1)
        x = decoder_layer(layer, x, state.inputs[index], None, levels, ~mask[:, None, None])
    return product(model.output, x[:, 0]).log_softmax(-1)


def beam_search(
    model: M2, features: Tensor, mask: Tensor, beam: int, length: int, never: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return words [B, K, T], best first,
    and their log-probabilities [B, K, T], with a graph if gradients are on.

    Args:
        model: the captioner.
        features, mask: of B images.
        beam: K.
        length: T, of which every step runs.
        never: ids that are not said.
    """
    images, levels = len(features), encode(model, features, mask)
    state = Rows(features, [levels.new_zeros(images, 0, levels.shape[-1]) for _ in model.decoder])
    words = torch.full((images, 1), BOS, dtype=torch.long)
    total, chosen = torch.zeros(images, 1), torch.zeros(images, 1, 0)
    done = torch.zeros(images, 1, dtype=torch.bool)
    history = torch.zeros(images, 1, 0, dtype=torch.long)
    for _ in range(length):
        found = step(model, words.flatten(), state, levels, mask)
        if never is not None:
            found = found.index_fill(-1, never, -torch.inf).log_softmax(-1)
        found = found.unflatten(0, words.shape)  # [B, 1 at first, then K, V]
        frozen = torch.full_like(found, -999.0).index_fill(2, torch.tensor([PAD]), 0.0)
        found = torch.where(done[..., None], frozen, found)
        flat = (total[..., None] + found).flatten(1).sort(1, descending=True)[1][:, :beam]
        parents, words = flat // found.shape[-1], flat % found.shape[-1]
        new = found.flatten(1).gather(1, flat)
        chosen = torch.cat(
            [chosen.gather(1, parents[..., None].expand(-1, -1, chosen.shape[2])), new[..., None]],
            2,
        )
        history = torch.cat(
            [
                history.gather(1, parents[..., None].expand(-1, -1, history.shape[2])),
                words[..., None],
            ],
            2,
        )
        total = total.gather(1, parents) + new
        done = done.gather(1, parents) | (words == EOS)
        state = state.moved((torch.arange(images)[:, None] * found.shape[1] + parents).flatten())
        if len(levels) == images and beam > 1:
            levels, mask = levels.repeat_interleave(beam, 0), mask.repeat_interleave(beam, 0)
    return history, chosen
