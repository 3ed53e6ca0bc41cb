"""Diverse beam search (Vijayakumar et al. 2018): groups of beams that avoid each other's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recap.decoding.beam import beam_search
from recap.decoding.step import S, Step


@dataclass
class _Avoiding:
    """A beam's state, and the place of the next word."""

    inner: Any
    images: Tensor
    place: int = 0

    def reorder(self, beams: Tensor) -> _Avoiding:
        return _Avoiding(self.inner.reorder(beams), self.images, self.place)

    def select(self, images: Tensor) -> _Avoiding:
        return _Avoiding(self.inner.select(images), self.images[images], self.place)


@torch.no_grad()
def diverse_beam_search(
    step: Step[S],
    state: S,
    *,
    images: int,
    groups: int,
    beam: int,
    strength: float,
    pad: int,
    device: torch.device,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """Search `groups` times with `beam` beams each; a word that earlier groups say at a place costs `strength` there.

    The penalty counts how often the groups before said the word at this place (Hamming diversity); groups run one after
    the other to the end, so a group sees the captions that the earlier ones finally chose.

    Args:
        step, state, options: as for `beam_search`. Scores hold the penalty.

    Returns:
        Tokens [B, groups * beam, max_length], group by group, best of each first; scores [B, groups * beam].
    """
    found: list[tuple[Tensor, Tensor]] = []

    def avoiding(tokens: Tensor, here: _Avoiding) -> tuple[Tensor, _Avoiding]:
        log_probabilities, inner = step(tokens, here.inner)
        if found:
            said = torch.cat([group[:, :, here.place] for group, _ in found], 1)[here.images]  # [B', earlier beams]
            counts = torch.zeros_like(log_probabilities[:, 0]).scatter_add_(
                1, said, (said != pad).to(log_probabilities.dtype)
            )
            log_probabilities = log_probabilities - strength * counts[:, None]
        return log_probabilities, _Avoiding(inner, here.images, here.place + 1)

    every = torch.arange(images, device=device)
    for _ in range(groups):
        begin = _Avoiding(state.select(every), every)
        found.append(beam_search(avoiding, begin, images=images, beam=beam, pad=pad, device=device, **options))
    return torch.cat([tokens for tokens, _ in found], 1), torch.cat([scores for _, scores in found], 1)
