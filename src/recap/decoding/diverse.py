"""Diverse beam search (Vijayakumar et al. 2018): groups of beams that avoid each other's tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recap.decoding.beam import beam_search
from recap.decoding.constraints import Constraint
from recap.decoding.limits import DecodingLimits
from recap.decoding.step import S, Step


@dataclass
class _PenalizedState:
    """A model's state, the images that are left of the batch, and the position of the next token."""

    inner: Any
    images: Tensor
    position: int = 0

    def reorder(self, beams: Tensor) -> _PenalizedState:
        return _PenalizedState(self.inner.reorder(beams), self.images, self.position)

    def select(self, images: Tensor) -> _PenalizedState:
        return _PenalizedState(self.inner.select(images), self.images[images], self.position)


@torch.no_grad()
def diverse_beam_search(
    step: Step[S],
    state: S,
    limits: DecodingLimits,
    *,
    groups: int,
    beam: int,
    strength: float,
    length_penalty: float = 0.0,
    constraint: Constraint | None = None,
) -> tuple[Tensor, Tensor]:
    """Search `groups` times with `beam` beams each; a token of earlier groups costs `strength` at its position.

    The penalty counts how often the groups before chose the token at this position (Hamming diversity); groups run one
    after the other to the end, so a group sees the captions that the earlier ones finally chose.

    Args:
        step, state, limits, length_penalty, constraint: as for `beam_search`. Scores hold the penalty.
        groups: how many.
        beam: beams per image in each group.
        strength: of the penalty, in nats.

    Returns:
        Tokens [B, groups * beam, max_length], group by group, best of each first; scores [B, groups * beam].
    """
    found: list[tuple[Tensor, Tensor]] = []

    def penalized(tokens: Tensor, here: _PenalizedState) -> tuple[Tensor, _PenalizedState]:
        log_probabilities, inner = step(tokens, here.inner)
        if found:
            # [B', earlier beams]: the tokens of earlier groups at this position
            earlier = torch.cat([group[:, :, here.position] for group, _ in found], 1)[here.images]
            counts = torch.zeros_like(log_probabilities[:, 0]).scatter_add_(
                1, earlier, (earlier != limits.pad).to(log_probabilities.dtype)
            )
            log_probabilities = log_probabilities - strength * counts[:, None]
        return log_probabilities, _PenalizedState(inner, here.images, here.position + 1)

    everything = torch.arange(limits.images, device=limits.device)
    for _ in range(groups):
        begin = _PenalizedState(state.select(everything), everything)
        found.append(
            beam_search(penalized, begin, limits, beam=beam, length_penalty=length_penalty, constraint=constraint)
        )
    return torch.cat([tokens for tokens, _ in found], 1), torch.cat([scores for _, scores in found], 1)
