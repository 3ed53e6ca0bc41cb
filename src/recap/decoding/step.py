"""What decoding needs of a model, and the words it must not say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor


class DecodingState(Protocol):
    """A model's state for B images with C beams each."""

    def reorder(self, beams: Tensor) -> Self:
        """Let beam c of image b continue old beam `beams[b, c]`."""

    def select(self, images: Tensor) -> Self:
        """Drop all images but those given by index."""


S = TypeVar("S", bound=DecodingState)
Step = Callable[[Tensor, S], tuple[Tensor, S]]
"""tokens [B, C], state -> log-probabilities of the next word [B, C, V], new state."""


class NotANumber(ValueError):
    """The model gave a log-probability that is not a number."""

    def __init__(self, place: int, images: list[int]) -> None:
        super().__init__(f"the model gave a log-probability that is not a number, at word {place}")
        self.place, self.images = place, images  # images by their index in the batch

    @classmethod
    def check(cls, log_probabilities: Tensor, images: Tensor, place: int) -> None:
        """Raise if any of [B', K, V] is not a number; `images` [B'] are the indices of the rows."""
        bad = log_probabilities.amax((1, 2)).isnan()  # the largest of numbers and NaN is NaN
        if bad.any():
            raise cls(place, images[bad].tolist())


def forbid(scores: Tensor, words: Sequence[int]) -> Tensor:
    """Return the distribution [..., V] of scores or log-probabilities given that none of `words` is said."""
    ids = torch.tensor(list(words), dtype=torch.long, device=scores.device)
    return scores.index_fill(-1, ids, -torch.inf).log_softmax(-1)


def forbidding(step: Step[S], words: Sequence[int]) -> Step[S]:
    """Return a step that never says `words` (<pad>, <bos>, <unk>)."""

    def restricted(tokens: Tensor, state: S) -> tuple[Tensor, S]:
        log_probabilities, state = step(tokens, state)
        return forbid(log_probabilities, words), state

    return restricted
