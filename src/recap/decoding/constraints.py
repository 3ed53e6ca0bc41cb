"""Rules on which tokens may come next, as a callable that beam search asks before each token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Constraint = Callable[[Tensor, Tensor], Tensor]
"""tokens so far [B, K, t], log-probabilities [B, K, V] -> log-probabilities with -inf where a token may not follow.

Nothing is normalized again: scores stay the model's own. A beam for which no token is left keeps its probabilities."""


@dataclass(frozen=True)
class Rules:
    """What released decoders forbid.

    Args:
        eos: the end token.
        no_repeated_ngram: no n-gram of this length is repeated in a caption; 0: no rule, 1: no repeated token.
        no_immediate_repeat: no token follows itself.
        bad_endings: ids of words a caption may not end on ("a", "with", ...).
    """

    eos: int
    no_repeated_ngram: int = 0
    no_immediate_repeat: bool = False
    bad_endings: Sequence[int] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing is forbidden."""
        return not (self.no_repeated_ngram or self.no_immediate_repeat or self.bad_endings)

    def __call__(self, tokens: Tensor, log_probabilities: Tensor) -> Tensor:
        """Forbid; see `Constraint`."""
        length = tokens.shape[-1]
        banned = torch.zeros_like(log_probabilities, dtype=torch.bool)
        if self.no_immediate_repeat and length:
            banned.scatter_(-1, tokens[..., -1:], True)
        if self.bad_endings and length:
            bad = torch.tensor(list(self.bad_endings), device=tokens.device)
            banned[..., self.eos] |= torch.isin(tokens[..., -1], bad)
        n = self.no_repeated_ngram
        if n and length >= n:
            windows = tokens.unfold(-1, n, 1)  # [B, K, t - n + 1, n]
            begins = windows[..., : n - 1]
            same = (begins == tokens[..., None, length - n + 1 :]).all(-1)
            dummy_column = log_probabilities.shape[-1]  # takes what is not banned
            targets = torch.where(same, windows[..., -1], dummy_column)
            wider = torch.nn.functional.pad(banned, (0, 1)).scatter_(-1, targets, True)
            wider[..., self.eos] = banned[..., self.eos]  # a caption may always end
            banned = wider[..., :dummy_column]
        allowed = log_probabilities.masked_fill(banned, -torch.inf)
        no_option = torch.isneginf(allowed).all(-1, keepdim=True)
        return torch.where(no_option, log_probabilities, allowed)


def constrained(rules: Rules) -> Constraint | None:
    """Return the rules, or None where they forbid nothing."""
    return None if rules.empty else rules
