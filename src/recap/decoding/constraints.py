"""Rules on which tokens may come next, which beam search asks before each token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from recap.settings.recipes import DecodingRules


def forbid(
    rules: DecodingRules, tokens: Tensor, log_probabilities: Tensor, *, eos: int, bad_endings: Sequence[int]
) -> Tensor:
    """Give -inf to the tokens that may not follow; a beam for which no token is left keeps its probabilities.

    Nothing is normalized again: scores stay the model's own.

    Args:
        rules: what is forbidden.
        tokens: tokens so far, [B, K, t]; eos: the end token.
        log_probabilities: [B, K, V].
        bad_endings: ids of the words that a caption may not end on ("a", "with", ...).
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
