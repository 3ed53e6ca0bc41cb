"""The interface of every captioner, and how one is built from settings.

    memory = model.encode(images)             once per image
    hidden = model.decode(tokens, memory)     teacher forcing, all captions of an image at once
    logits = model.logits(hidden)
    state  = model.start(memory)              one token at a time: equal to teacher forcing
    log_probabilities, state = model.step(tokens, state)

Shape letters as in `recap.nn`: B images, C captions or beams, T tokens, N vectors, D width, V ids.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from recap.data.vocabulary import PAD
from recap.models.images import Images, InputSpec
from recap.models.state import MemoryT, StateT
from recap.nn.rows import PackedIndex
from recap.settings import ModelConfig
from recap.settings.kinds import resolve


def token_mask(tokens: Tensor) -> Tensor:
    """Return where captions [B, C, T] have tokens: all but padding, and always the first."""
    mask = tokens != PAD
    return torch.cat([torch.ones_like(mask[..., :1]), mask[..., 1:]], -1)


class Captioner(nn.Module, ABC, Generic[MemoryT, StateT]):
    """Base of all models: what training, decoding and figures ask of one.

    The types of its memory and of its state are its parameters: `class
    UpDown(Captioner[GlobalMemory, UpDownState])`. A constructor takes `inputs: InputSpec`, then the
    settings of the model's kind. Layers take these, too, or flat keyword arguments without
    defaults; the settings (`recap.settings.models`) own the numbers.
    """

    #: the names of the streams that must come with boxes and image sizes
    reads_boxes: Sequence[str] = ()
    #: passes that `recap.models.compiled` compiles
    compiled_passes: Sequence[str] = ("encode", "decode")
    #: whether compiled captions are padded to buckets of tokens; not where padding changes results
    #: or a loop takes any number of tokens
    in_buckets = True
    #: keep only the inputs of layers for the backward pass
    #: and compute the rest again, in models with such layers
    activation_checkpointing = False

    @classmethod
    def reads(cls, inputs: InputSpec) -> Sequence[str]:
        """Return the names of the streams that the model reads; by default the main one."""
        return [inputs.main]

    def run_layer(self, layer: nn.Module, *inputs: Any, **others: Any) -> Any:
        """Call a layer, with its activations recomputed if asked for."""
        if self.activation_checkpointing and torch.is_grad_enabled():
            return checkpoint(layer, *inputs, use_reentrant=False, **others)
        return layer(*inputs, **others)

    @abstractmethod
    def encode(self, images: Images) -> MemoryT:
        """Encode images, once each; vectors that a mask hides change nothing."""

    @abstractmethod
    def decode(self, tokens: Tensor, memory: MemoryT) -> Tensor:
        """Teacher forcing: tokens [B, C, T] -> hidden [B, C, T, D].

        Tokens begin with <bos> and are padded at the end.
        """

    def decode_words(self, tokens: Tensor, index: PackedIndex, memory: MemoryT) -> Tensor:
        """As `decode`, but for the R tokens [B, C, T] that `index` names: [R, D].

        The others may be skipped.
        """
        return index.pack(self.decode(tokens, memory))

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V] scores before the softmax; by default of the layer `output`."""
        return cast(nn.Module, self.output)(hidden)

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V], in at least float32: in 16 bits rare words would underflow."""
        scores = self.logits(hidden)
        return scores.to(torch.promote_types(scores.dtype, torch.float32)).log_softmax(-1)

    @abstractmethod
    def start(self, memory: MemoryT) -> StateT:
        """Return the state before the first token, with one beam per image."""

    @abstractmethod
    def step(self, tokens: Tensor, state: StateT) -> tuple[Tensor, StateT]:
        """One token: tokens [B, C] -> log-probabilities of the next token [B, C, V] and state."""

    def attention_modules(self) -> list[nn.Identity]:
        """Return where attention over the image passes its weights, see `recap.models.explained`.

        Or nothing.
        """
        return []


def build_model(settings: ModelConfig, inputs: InputSpec) -> Captioner:
    """Build the model that settings describe;
    the classes in `recap.settings.models` say which module has their kind.

    It is imported here, so that the source of one kind is no part of what another depends on.
    """
    make = resolve(settings.implementation)
    make.reads(inputs)  # its sentence about a missing stream comes before any other
    return make(inputs, settings)
