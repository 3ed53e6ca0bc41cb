"""Diverse beam search (Vijayakumar et al. 2018): groups of beams that avoid each other's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recap.decoding.beam import Beams, beam_search
from recap.decoding.set_aside import set_aside_search
from recap.decoding.step import DecodingBatch, S, Step
from recap.settings.recipes import DecodingSettings


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


def search(
    step: Step[S], state: S, batch: DecodingBatch, settings: DecodingSettings, bad_endings: Sequence[int] = ()
) -> Beams:
    """Search as the settings say: one group of beams in one of its two forms, or diverse groups; see `beam_search`."""
    find = diverse_beam_search if settings.rules.groups > 1 else beam_search
    if settings.finished == "set_aside":
        find = set_aside_search
    return find(step, state, batch, settings, bad_endings)


@torch.no_grad()
def diverse_beam_search(
    step: Step[S], state: S, batch: DecodingBatch, settings: DecodingSettings, bad_endings: Sequence[int] = ()
) -> Beams:
    """Search in groups that share the beams; a token of earlier groups costs `diversity` nats at its position.

    The penalty counts how often the groups before chose the token at this position (Hamming diversity); groups run one
    after the other to the end, so a group sees the captions that the earlier ones finally chose.

    Args:
        step, state, batch, bad_endings: as for `beam_search`.
        settings: `rules.groups` divides `beam`.

    Returns:
        The captions of all groups, best first. Scores and log-probabilities hold the penalty.
    """
    groups, strength = settings.rules.groups, settings.rules.diversity
    of_a_group = settings.model_copy(update={"beam": settings.beam // groups})
    found: list[Beams] = []

    def penalized(tokens: Tensor, here: _PenalizedState) -> tuple[Tensor, _PenalizedState]:
        log_probabilities, inner = step(tokens, here.inner)
        if found:
            # [B', earlier beams]: the tokens of earlier groups at this position
            earlier = torch.cat([group.tokens[:, :, here.position] for group in found], 1)[here.images]
            counts = torch.zeros_like(log_probabilities[:, 0]).scatter_add_(
                1, earlier, (earlier != batch.pad).to(log_probabilities.dtype)
            )
            log_probabilities = log_probabilities - strength * counts[:, None]
        return log_probabilities, _PenalizedState(inner, here.images, here.position + 1)

    everything = torch.arange(batch.images, device=batch.device)
    for _ in range(groups):
        begin = _PenalizedState(state.select(everything), everything)
        found.append(beam_search(penalized, begin, batch, of_a_group, bad_endings))
    parts = ([group.tokens, group.scores, group.log_probabilities] for group in found)
    return Beams(*(torch.cat(part, 1) for part in zip(*parts, strict=True))).ranked()
