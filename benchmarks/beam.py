"""Beam search with cached keys and values, against encoding the prefix anew for every word."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recap.decoding.beam import beam_search
from recap.models.base import Captioner, Memory
from recap.models.registry import build_model

IMAGES, REGIONS, BEAM, LENGTH, WORDS = 10, 50, 5, 20, 9488


@dataclass
class Prefix:
    """The words so far; nothing else is remembered."""

    model: Captioner
    memory: Memory
    words: Tensor

    def reorder(self, beams: Tensor) -> Prefix:
        """Continue chosen beams."""
        chosen = self.words.gather(1, beams[..., None].expand(-1, -1, self.words.shape[2]))
        return Prefix(self.model, self.memory, chosen)

    def keep(self, images: Tensor) -> Prefix:
        """Keep chosen images."""
        return Prefix(self.model, self.memory.keep(images), self.words[images])


def plain_step(tokens: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
    """Decode the whole prefix for one more word, as most released captioners do."""
    words = torch.cat([state.words, tokens[..., None]], 2)
    hidden = state.model.decode(words, state.memory)[:, :, -1]
    return state.model.logits(hidden).log_softmax(-1), Prefix(state.model, state.memory, words)


def transformer() -> tuple:
    """6+6 layers of width 512, random weights, so that captions run to their full length."""
    torch.manual_seed(0)
    model = build_model({"kind": "transformer"}, feature_size=2048, vocabulary_size=WORDS).eval()
    features, mask = torch.randn(IMAGES, REGIONS, 2048), torch.ones(IMAGES, REGIONS, dtype=torch.bool)
    options = {
        "images": IMAGES,
        "beam": BEAM,
        "max_length": LENGTH,
        "bos": 1,
        "eos": 2,
        "pad": 0,
        "device": features.device,
    }

    @torch.no_grad()
    def ours() -> tuple[Tensor, Tensor]:
        return beam_search(model.step, model.start(model.encode(features, mask)), **options)

    @torch.no_grad()
    def reference() -> tuple[Tensor, Tensor]:
        state = Prefix(model, model.encode(features, mask), torch.empty(IMAGES, 1, 0, dtype=torch.long))
        return beam_search(plain_step, state, **options)

    assert torch.equal(ours()[0], reference()[0])
    return "beam.transformer", f"{IMAGES} images x {REGIONS} regions, beam {BEAM}, {LENGTH} words", ours, reference
