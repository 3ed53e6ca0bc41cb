"""Several trained models that speak together: at every word, the mean of their probabilities.

As the X-LAN paper fuses "four models with different initialized parameters"; the mean of probabilities is what the
captioning code bases do. One model alone is the model itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from recap.models.base import Captioner
from recap.models.images import Images
from recap.models.state import Memory, State


@dataclass(frozen=True)
class EnsembleMemory(Memory):
    """The members' memories of the same images; `values` and `mask` are the first member's."""

    parts: tuple[Memory, ...]

    def select(self, images: Tensor) -> EnsembleMemory:
        """Return the memory of some of the images, given by index."""
        return _memory([part.select(images) for part in self.parts])


@dataclass
class EnsembleState(State):
    """The members' states."""

    parts: tuple[State, ...] = ()

    def reorder(self, beams: Tensor) -> EnsembleState:
        """Let every member's beams follow."""
        return _state(self, [part.reorder(beams) for part in self.parts])

    def select(self, images: Tensor) -> EnsembleState:
        """Let every member drop the other images."""
        return _state(self, [part.select(images) for part in self.parts])


def _memory(parts: Sequence[Memory]) -> EnsembleMemory:
    parts = tuple(parts)
    return EnsembleMemory(parts[0].values, parts[0].mask, parts)


def _state(before: State, parts: Sequence[State]) -> EnsembleState:
    return EnsembleState(_memory([part.memory for part in parts]), before.position, parts=tuple(parts))


class Ensemble(Captioner):
    """The mean of several captioners' word probabilities; not trained.

    Args:
        models: captioners of one vocabulary, at least one; their kinds and sizes may differ.

    Raises:
        ValueError: there is none.
    """

    def __init__(self, models: Sequence[Captioner]) -> None:
        super().__init__()
        if not models:
            raise ValueError("an ensemble needs at least one model")
        self.models = nn.ModuleList(models)

    @property
    def members(self) -> list[Captioner]:
        """The models."""
        return cast(list[Captioner], list(self.models))

    def encode(self, images: Images) -> EnsembleMemory:
        """Let every member encode the images."""
        return _memory([model.encode(images) for model in self.members])

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        """Teacher forcing: tokens [B, C, T] -> log-probabilities [B, C, T, V], which `logits` passes on."""
        parts = cast(EnsembleMemory, memory).parts
        pairs = zip(self.members, parts, strict=True)
        return self._mean([model.log_probabilities(model.decode(tokens, part)) for model, part in pairs])

    def logits(self, hidden: Tensor) -> Tensor:
        """Log-probabilities are their own scores."""
        return hidden

    def start(self, memory: Memory) -> EnsembleState:
        """Start every member."""
        parts = cast(EnsembleMemory, memory).parts
        return _state(State(memory), [model.start(part) for model, part in zip(self.members, parts, strict=True)])

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, EnsembleState]:
        """One word: tokens [B, C] -> log of the mean probability [B, C, V] and the members' new states."""
        parts = cast(EnsembleState, state).parts
        said = [model.step(tokens, part) for model, part in zip(self.members, parts, strict=True)]
        mean = self._mean([log_probabilities for log_probabilities, _ in said])
        after = _state(state, [part for _, part in said])
        after.position = state.position + 1
        return mean, after

    @staticmethod
    def _mean(log_probabilities: list[Tensor]) -> Tensor:
        """Log of the mean probability."""
        if len(log_probabilities) == 1:
            return log_probabilities[0]
        return torch.stack(log_probabilities).logsumexp(0) - math.log(len(log_probabilities))
