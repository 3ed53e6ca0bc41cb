"""The interface of every captioner.

    memory = model.encode(features, mask)           once an image
    hidden = model.decode(tokens, memory)           teacher forcing, all captions of an image at once
    logits = model.logits(hidden)
    state  = model.start(memory)                    one word at a time: equal to teacher forcing
    log_probabilities, state = model.step(tokens, state)

Shape letters as in `recap.layers`: B images, C captions or beams, T words, N vectors, D width, V words known.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from recap.data.vocabulary.special import PAD
from recap.models.state import Memory, State


def token_mask(tokens: Tensor) -> Tensor:
    """Return where captions [B, C, T] have tokens: all but padding, and the first whatever it is."""
    mask = tokens != PAD
    return torch.cat([torch.ones_like(mask[..., :1]), mask[..., 1:]], -1)


class Captioner(nn.Module):
    """Base of all models.

    Attributes:
        recompute: keep only the inputs of layers for the backward pass and compute the rest anew; models that have no
            such layers ignore it.
    """

    recompute = False

    def run_layer(self, layer: nn.Module, *inputs: Any) -> Tensor:
        """Call a layer, with its activations recomputed if asked for."""
        if self.recompute and torch.is_grad_enabled():
            return cast(Tensor, checkpoint(layer, *inputs, use_reentrant=False))
        return cast(Tensor, layer(*inputs))

    def encode(self, features: Tensor, mask: Tensor) -> Memory:
        """Encode images: features [B, N, F] and mask [B, N] (True = real) -> Memory."""
        raise NotImplementedError

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        """Teacher forcing: tokens [B, C, T] (beginning with <bos>, padded at the end) -> hidden [B, C, T, D]."""
        raise NotImplementedError

    def decode_words(self, tokens: Tensor, real: Tensor, memory: Memory) -> Tensor:
        """As `decode`, but for the R words where `real` [B, C, T] is True: [R, D]; a model may skip the others."""
        return self.decode(tokens, memory)[real]

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V] scores before the softmax."""
        raise NotImplementedError

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V], in at least float32: in 16 bits the probabilities of rare words would vanish."""
        scores = self.logits(hidden)
        return scores.to(torch.promote_types(scores.dtype, torch.float32)).log_softmax(-1)

    def start(self, memory: Memory) -> State:
        """Return the state before the first word, with one beam an image."""
        raise NotImplementedError

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """One word: tokens [B, C] -> log-probabilities of the next word [B, C, V] and the new state."""
        raise NotImplementedError
