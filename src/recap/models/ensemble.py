"""An ensemble of models: the mean of their token probabilities, as in released code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from recap.models.base import Captioner
from recap.models.images import Images
from recap.models.state import PER_BEAM, Memory, State
from recap.nn.layers import Stack


@dataclass(frozen=True)
class EnsembleMemory(Memory):
    """The members' memories of the same images; `values` and `mask` are the first member's."""

    parts: tuple[Memory, ...]


@dataclass(frozen=True, kw_only=True)
class EnsembleState(State[EnsembleMemory]):
    """The members' states."""

    parts: tuple[State[Any], ...] = field(metadata=PER_BEAM)


class Ensemble(Captioner[EnsembleMemory, EnsembleState]):
    """Captioners of one vocabulary, whose kinds and sizes may differ.

    One alone is the model itself.
    """

    def __init__(self, models: Sequence[Captioner]) -> None:
        super().__init__()
        self.models = Stack[Captioner](models)

    def encode(self, images: Images) -> EnsembleMemory:
        """Images -> the memories of all members."""
        parts = tuple(model.encode(images) for model in self.models)
        return EnsembleMemory(parts[0].values, parts[0].mask, parts)

    def decode(self, tokens: Tensor, memory: EnsembleMemory) -> Tensor:
        """Teacher forcing: tokens [B, C, T] -> log-probabilities [B, C, T, V]; `logits` passes."""
        pairs = zip(self.models, memory.parts, strict=True)
        return log_mean(
            [model.log_probabilities(model.decode(tokens, part)) for model, part in pairs]
        )

    def logits(self, hidden: Tensor) -> Tensor:
        """Log-probabilities are their own scores."""
        return hidden

    def start(self, memory: EnsembleMemory) -> EnsembleState:
        """Start every member."""
        pairs = zip(self.models, memory.parts, strict=True)
        return EnsembleState(memory, parts=tuple(model.start(part) for model, part in pairs))

    def step(self, tokens: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        """One token: tokens [B, C] -> log of the mean probability [B, C, V] and the new states."""
        pairs = zip(self.models, state.parts, strict=True)
        log_probabilities, parts = zip(
            *(model.step(tokens, part) for model, part in pairs), strict=True
        )
        return log_mean(log_probabilities), state.advanced(parts=parts)


def log_mean(log_probabilities: Sequence[Tensor]) -> Tensor:
    """Log of the mean of members' probabilities, each [..., V]."""
    return torch.stack(list(log_probabilities)).logsumexp(0) - math.log(len(log_probabilities))
