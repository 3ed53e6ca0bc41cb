"""What decoding needs of a model, a batch and a vocabulary; banned tokens.

Rules on which may come next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor

from recap.core.errors import TrainingError
from recap.settings.recipes import DecodingRules


class DecodingState(Protocol):
    """A model's state for B images with C beams each."""

    def reorder(self, beams: Tensor) -> Self:
        """Let beam c of image b continue old beam `beams[b, c]`."""

    def select(self, images: Tensor) -> Self:
        """Drop all images but those given by index."""


S = TypeVar("S", bound=DecodingState)
Step = Callable[[Tensor, S], tuple[Tensor, S]]
"""tokens [B, C], state -> log-probabilities of the next token [B, C, V], new state."""


class NonFiniteLogits(TrainingError):
    """The model gave a log-probability that is NaN."""

    def __init__(self, position: int, images: list[int]) -> None:
        super().__init__(
            f"the model gave a log-probability that is NaN, at token {position}; its weights are "
            "of no use"
        )
        self.images = images  # by their index in the batch


def any_leave(
    finished: Tensor, log_probabilities: Tensor, images: Tensor, position: int, *, together: bool
) -> bool:
    """Return whether images leave the batch, [B'],
    and refuse NaN in [B', C, V]: one wait for a GPU a token.

    Each leaves once it is finished, or all `together`; `images` [B'] are the indices of the rows in
    the batch.
    """
    bad = log_probabilities.amax((1, 2)).isnan()  # the largest of numbers and NaN is NaN
    lost, leave = torch.stack([bad.any(), finished.all() if together else finished.any()]).tolist()
    if lost:
        raise NonFiniteLogits(position, images[bad].tolist())
    return bool(leave)


def ban_tokens(scores: Tensor, banned: Sequence[int]) -> Tensor:
    """Return the distribution [..., V] of scores
    or log-probabilities given that no token of `banned` comes next."""
    return scores.index_fill(-1, _ids(tuple(banned), scores.device), -torch.inf).log_softmax(-1)


@cache
def _ids(tokens: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(tokens, dtype=torch.long, device=device)


def with_banned_tokens(step: Step[S], banned: Sequence[int]) -> Step[S]:
    """Return a step that never gives the tokens of `banned` a probability (<pad>, <bos>, <unk>)."""

    def restricted(tokens: Tensor, state: S) -> tuple[Tensor, S]:
        log_probabilities, state = step(tokens, state)
        return ban_tokens(log_probabilities, banned), state

    return restricted


@dataclass(frozen=True)
class DecodingBatch:
    """A batch before the first token."""

    images: int  #: B, images of the state that decoding starts from
    bos: int  #: ids of the tokens that begin, end and pad a caption
    eos: int
    pad: int
    device: torch.device  #: where the tokens are
    #: whether images leave all at once, so that a step's shapes are those of its position
    together: bool = False


def forbid(
    rules: DecodingRules,
    tokens: Tensor,
    log_probabilities: Tensor,
    *,
    eos: int,
    bad_endings: Sequence[int],
) -> Tensor:
    """Give -inf to the tokens that may not follow;
    a beam for which no token is left keeps its probabilities.

    Tokens so far [B, K, t], log-probabilities [B, K, V]; nothing is normalized again: scores stay
    the model's own. `bad_endings` are ids of the words that a caption may not end on ("a", "with",
    ...).
    """
    n, length = rules.no_repeated_ngram, tokens.shape[-1]
    if not (n or rules.no_immediate_repeat or bad_endings):
        return log_probabilities
    banned = torch.zeros_like(log_probabilities, dtype=torch.bool)
    if rules.no_immediate_repeat and length:
        banned.scatter_(-1, tokens[..., -1:], True)
    if bad_endings and length:
        bad = torch.tensor(list(bad_endings), device=tokens.device)
        banned[..., eos] |= torch.isin(tokens[..., -1], bad)
    if n and length >= n:
        windows = tokens.unfold(-1, n, 1)  # [B, K, t - n + 1, n]
        begins = windows[..., : n - 1]
        same = (begins == tokens[..., None, length - n + 1 :]).all(-1)
        dummy_column = log_probabilities.shape[-1]  # takes what is not banned
        targets = torch.where(same, windows[..., -1], dummy_column)
        wider = torch.nn.functional.pad(banned, (0, 1)).scatter_(-1, targets, True)
        wider[..., eos] = banned[..., eos]  # a caption may always end
        banned = wider[..., :dummy_column]
    allowed = log_probabilities.masked_fill(banned, -torch.inf)
    no_option = torch.isneginf(allowed).all(-1, keepdim=True)
    return torch.where(no_option, log_probabilities, allowed)
