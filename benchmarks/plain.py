"""What released captioning code does, written plainly on the same weights:
the reference of every speed-up.

Features are repeated for each caption and encoded once per caption; captions are padded to the
longest; all tokens get logits; each word of a decoding encodes the whole prefix anew; scores are
sorted completely; sampling keeps its graph.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from recap.models.base import Captioner
from recap.models.images import Images
from recap.models.state import Memory
from recap.nn.attention import Attention, KeyValue, MultiHeadAttention
from recap.nn.fast import Linear
from recap.nn.rows import Rows
from recap.papers.transformer.model import Transformer

PAD, BOS, EOS = 0, 1, 2


class PlainAttention(Attention):
    """softmax(QK'/sqrt K) V with every tensor in between kept.

    Shares the projections of a `MultiHeadAttention`.
    """

    def __init__(self, of: MultiHeadAttention) -> None:
        super().__init__()
        self.of = of

    def key_value(self, source: Rows) -> KeyValue:
        """Project."""
        return self.of.key_value(source)

    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Attend; one caption per image, as features are repeated."""
        q = query.map(self.of.query).split_heads(self.of.heads)
        scores = q @ key_value[0].mT / math.sqrt(q.shape[-1])
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask[:, :, None], -1e9)
        return query.merge_heads(scores.softmax(-1) @ key_value[1]).map(self.of.output)


def plainly(model: Captioner) -> Captioner:
    """Replace the fused attentions and packing products of a model by plain ones, in place."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, MultiHeadAttention):
                setattr(module, name, PlainAttention(child))
            elif isinstance(child, Linear):
                plain = nn.Linear(
                    child.in_features, child.out_features, bias=child.bias is not None
                )
                plain.weight, plain.bias = child.weight, child.bias
                setattr(module, name, plain)
    if isinstance(model, Transformer):
        model.packs = False
    return model


def repeated(features: Tensor, mask: Tensor, times: int) -> tuple[Tensor, Tensor]:
    """Repeat the features of each image for each of its captions."""
    return features.repeat_interleave(times, 0), mask.repeat_interleave(times, 0)


def cross_entropy(model: Captioner, features: Tensor, mask: Tensor, tokens: Tensor) -> Tensor:
    """Loss of captions [B, C, T + 1]: every caption encodes its image, every position gets
    logits."""
    memory = model.encode(Images.of(*repeated(features, mask, tokens.shape[1])))
    rows = tokens.flatten(0, 1)
    log_probabilities = model.logits(model.decode(rows[:, None, :-1], memory))[:, 0].log_softmax(-1)
    right = log_probabilities.gather(-1, rows[:, 1:, None])[..., 0]
    real = (rows[:, 1:] != PAD).to(right.dtype)
    return -(right * real).sum() / real.sum()


def sample(model: Captioner, memory: Memory, length: int) -> tuple[Tensor, Tensor]:
    """Draw one caption per row, encoding the prefix anew for each word.

    Log-probabilities keep their graph.
    """
    rows = memory.values.shape[0]
    words = torch.full((rows, 1), BOS, dtype=torch.long)
    chosen = []
    for _ in range(length):
        scores = model.logits(model.decode(words[:, None], memory)[:, 0, -1]).log_softmax(-1)
        drawn = torch.multinomial(scores.exp(), 1)
        chosen.append(scores.gather(1, drawn)[:, 0])
        words = torch.cat([words, drawn], 1)
    return words[:, 1:], torch.stack(chosen, 1)


class Beams:
    """Captions of beam search [B, K, t + 1], chosen by a complete sort over beams and words."""

    def __init__(self, images: int, beam: int) -> None:
        self.beam = beam
        self.words = torch.full((images, beam, 1), BOS, dtype=torch.long)
        self.total = torch.full((images, beam), -torch.inf).index_fill(1, torch.tensor([0]), 0.0)
        self.done = torch.zeros(images, beam, dtype=torch.bool)

    def extend(self, scores: Tensor) -> Tensor:
        """Take log-probabilities [B, K, V]; return the beams [B, K] that are continued."""
        frozen = torch.full_like(scores, -torch.inf).index_fill(2, torch.tensor([PAD]), 0.0)
        scores = self.total[..., None] + torch.where(self.done[..., None], frozen, scores)
        best, flat = scores.flatten(1).sort(1, descending=True)
        self.total, flat = best[:, : self.beam], flat[:, : self.beam]
        parents, new = flat // scores.shape[-1], flat % scores.shape[-1]
        before = self.words.gather(1, parents[..., None].expand_as(self.words))
        self.words = torch.cat([before, new[..., None]], 2)
        self.done = self.done.gather(1, parents) | (new == EOS)
        return parents


@torch.no_grad()
def beam_search(model: Captioner, features: Tensor, mask: Tensor, beam: int, length: int) -> Tensor:
    """Beam search that repeats the memory for each beam and encodes the prefix anew for each
    word."""
    images, beams = len(features), Beams(len(features), beam)
    memory = model.encode(Images.of(features, mask))
    memory = Memory(*repeated(memory.values, memory.mask, beam))
    for _ in range(length):
        hidden = model.decode(beams.words.flatten(0, 1)[:, None], memory)[:, 0, -1]
        beams.extend(model.logits(hidden).log_softmax(-1).unflatten(0, (images, beam)))
    return beams.words[..., 1:]


class DictionaryCiderD:
    """CIDEr-D with n-grams as tuples in dictionaries.

    References are counted again for every candidate.
    """

    def __init__(self, references: dict[int, list[list[int]]]) -> None:
        self.references = references
        self.frequency: Counter[tuple[int, ...]] = Counter()
        for captions in references.values():
            self.frequency.update({gram for caption in captions for gram, _ in _grams(caption)})
        self.log_documents = math.log(len(references))

    def score(self, images: list[int], candidates: list[list[int]]) -> np.ndarray:
        """Score each candidate."""
        return np.array(
            [
                self._one(self.references[i], words)
                for i, words in zip(images, candidates, strict=True)
            ]
        )

    def _one(self, references: list[list[int]], candidate: list[int]) -> float:
        mine, norms, size = self._vector(candidate)
        total = 0.0
        for reference in references:
            theirs, their_norms, their_size = self._vector(reference)
            for order in range(4):
                value = sum(
                    min(weight, theirs[order].get(g, 0.0)) * theirs[order].get(g, 0.0)
                    for g, weight in mine[order].items()
                )
                if norms[order] and their_norms[order]:
                    value /= norms[order] * their_norms[order]
                total += value * math.exp(-((size - their_size) ** 2) / 72)
        return 10 * total / 4 / len(references)

    def _vector(self, caption: list[int]) -> tuple[list[dict], list[float], int]:
        vectors: list[dict[tuple[int, ...], float]] = [{} for _ in range(4)]
        for gram, count in _grams(caption):
            weight = count * (self.log_documents - math.log(max(1.0, self.frequency.get(gram, 0))))
            vectors[len(gram) - 1][gram] = weight
        return (
            vectors,
            [math.sqrt(sum(w * w for w in v.values())) for v in vectors],
            max(0, len(caption) - 1),
        )


def _grams(caption: list[int]) -> Iterator[tuple[tuple[int, ...], int]]:
    counts = Counter(
        tuple(caption[i : i + n]) for n in range(1, 5) for i in range(len(caption) - n + 1)
    )
    yield from counts.items()
