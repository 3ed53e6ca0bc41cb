"""What released code with a cache does, written plainly: the second reference of decoding and self-critical training.

An image is encoded once and its memory repeated for each beam or sample; keys and values of the words are concatenated
at each word and, when beams move, copied by index; scores are sorted completely; sampling keeps its graph.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from benchmarks.plain import BOS, Beams, repeated
from recap.models.images import Images
from recap.models.state import Memory
from recap.models.transformer import Transformer
from recap.models.transformer_layers import DecoderLayer


class Decoding:
    """The caches of all rows (images times beams or samples) of a plain Transformer, and one word after the other.

    Args:
        model: with plain attentions, see `plain.plainly`.
        features, mask: of the images.
        times: rows an image.
    """

    def __init__(self, model: Transformer, features: Tensor, mask: Tensor, times: int) -> None:
        self.model, self.place = model, 0
        memory = model.encode(Images.of(features, mask))
        self.memory = Memory(*repeated(memory.values, memory.mask, times))
        self.layers = cast(list[DecoderLayer], list(model.decoder))
        self.image = [layer.cross.keys(self.memory.values[:, None]) for layer in self.layers]
        self.words = [layer.attention.keys(self.memory.values[:, None, :0]) for layer in self.layers]

    def next(self, words: Tensor) -> Tensor:
        """Words [R] -> log-probabilities of the next [R, V]."""
        x = self.model._embed(words[:, None, None], torch.tensor(self.place))
        for index, layer in enumerate(self.layers):

            def attend(y: Tensor, layer: DecoderLayer = layer, index: int = index) -> Tensor:
                pairs = zip(self.words[index], layer.attention.keys(y), strict=True)
                self.words[index] = tuple(torch.cat(pair, 3) for pair in pairs)
                return layer.attention(y, self.words[index])[0]

            def look(y: Tensor, layer: DecoderLayer = layer, index: int = index) -> Tensor:
                return layer.cross(y, self.image[index], mask=self.memory.mask)[0]

            x = layer.around_attention(x, attend)
            x = layer.around_cross(x, look)
            x = layer.around_feed_forward(x, layer.feed_forward)
        self.place += 1
        return self.model.logits(self.model.decoder_norm(x)[:, 0, 0]).log_softmax(-1)

    def reorder(self, rows: Tensor) -> None:
        """Let row r continue row `rows[r]`."""
        self.words = [tuple(cache.index_select(0, rows) for cache in pair) for pair in self.words]


def sample(decoding: Decoding, length: int) -> tuple[Tensor, Tensor]:
    """Draw one caption a row; log-probabilities keep their graph."""
    words = torch.full((len(decoding.memory.values),), BOS)
    drawn, chosen = [], []
    for _ in range(length):
        scores = decoding.next(words)
        words = torch.multinomial(scores.exp(), 1)[:, 0]
        drawn.append(words)
        chosen.append(scores.gather(1, words[:, None])[:, 0])
    return torch.stack(drawn, 1), torch.stack(chosen, 1)


@torch.no_grad()
def beam_search(model: Transformer, features: Tensor, mask: Tensor, beam: int, length: int) -> Tensor:
    """Beam search whose rows all step together to the end."""
    images = len(features)
    decoding, beams = Decoding(model, features, mask, beam), Beams(images, beam)
    for _ in range(length):
        scores = decoding.next(beams.words[..., -1].flatten())
        parents = beams.extend(scores.unflatten(0, (images, beam)))
        decoding.reorder((torch.arange(images)[:, None] * beam + parents).flatten())
    return beams.words[..., 1:]
