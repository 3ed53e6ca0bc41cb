"""What released code with a cache does, written plainly:
the second reference of decoding and self-critical training.

An image is encoded once and its memory repeated for each beam or sample; keys and values of the
words are concatenated at each word and, when beams move, copied by index; scores are sorted
completely; sampling keeps its graph.
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.plain import BOS, Beams, repeated
from recap.models.images import Images
from recap.models.state import Memory
from recap.models.transformer import LayerCache
from recap.nn.attention import KeyValue
from recap.nn.rows import Rows, key_mask
from recap.papers.transformer.model import Transformer


class Concatenated(LayerCache):
    """Keys and values of one layer's words, longer by a copy with every word."""

    def __init__(self) -> None:
        self.pair: list[Tensor] = []

    def extend(self, key_value: KeyValue) -> KeyValue:
        """Append one word."""
        before = self.pair or [x[:, :, :, :0] for x in key_value]
        self.pair = [torch.cat(both, 3) for both in zip(before, key_value, strict=True)]
        return self.pair[0], self.pair[1]


class Decoding:
    """The caches of all rows (images times beams or samples)
    of a plain Transformer, and one word after the other.

    Args:
        model: with plain attentions, see `plain.plainly`.
        features, mask: of the images.
        times: rows per image.
    """

    def __init__(self, model: Transformer, features: Tensor, mask: Tensor, times: int) -> None:
        self.model, self.place = model, 0
        memory = model.encode(Images.of(features, mask))
        self.memory = Memory(*repeated(memory.values, memory.mask, times))
        source = Rows(self.memory.values[:, None])
        self.image = [layer.cross.key_value(source) for layer in model.decoder]
        self.past = [Concatenated() for _ in model.decoder]

    def next(self, words: Tensor) -> Tensor:
        """Words [R] -> log-probabilities of the next [R, V]."""
        x = Rows(self.model.embed(words[:, None, None], torch.tensor(self.place)))
        cross_mask = key_mask(self.memory.mask)
        for layer, image, past in zip(self.model.decoder, self.image, self.past, strict=True):
            x, _ = layer(x, image, None, cross_mask, past)
        self.place += 1
        return self.model.logits(self.model.decoder_norm(x.values)[:, 0, 0]).log_softmax(-1)

    def reorder(self, rows: Tensor) -> None:
        """Let row r continue row `rows[r]`."""
        for past in self.past:
            past.pair = [x.index_select(0, rows) for x in past.pair]


def sample(decoding: Decoding, length: int) -> tuple[Tensor, Tensor]:
    """Draw one caption per row; log-probabilities keep their graph."""
    words = torch.full((len(decoding.memory.values),), BOS)
    drawn, chosen = [], []
    for _ in range(length):
        scores = decoding.next(words)
        words = torch.multinomial(scores.exp(), 1)[:, 0]
        drawn.append(words)
        chosen.append(scores.gather(1, words[:, None])[:, 0])
    return torch.stack(drawn, 1), torch.stack(chosen, 1)


@torch.no_grad()
def beam_search(
    model: Transformer, features: Tensor, mask: Tensor, beam: int, length: int
) -> Tensor:
    """Beam search whose rows all step together to the end."""
    images = len(features)
    decoding, beams = Decoding(model, features, mask, beam), Beams(images, beam)
    for _ in range(length):
        scores = decoding.next(beams.words[..., -1].flatten())
        parents = beams.extend(scores.unflatten(0, (images, beam)))
        decoding.reorder((torch.arange(images)[:, None] * beam + parents).flatten())
    return beams.words[..., 1:]
