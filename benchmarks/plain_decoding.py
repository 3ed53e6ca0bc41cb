"""Loss, sampling, greedy and beam search over a plain step:
caches are copied, every score of the vocabulary is sorted.

A step takes words [R] and the state of rows, a mapping of tensors; what is named "fixed..." belongs
to the image and is copied to its rows once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import kl_div

from benchmarks.plain import BOS, EOS, PAD
from benchmarks.plain_x_linear import State, Step, repeat

NEVER = torch.tensor([0, 1, 3])  # <pad>, <bos>, <unk>: not said in self-critical training


def padded_loss(scores: Tensor, tokens: Tensor, smoothing: float = 0.0) -> Tensor:
    """Mean over the words of captions [R, T + 1] whose every place has scores [R, T, V].

    With smoothing s: the divergence from a table of targets as large as the scores, 1 - s at the
    word, the rest shared.
    """
    logged, right = scores.log_softmax(-1), tokens[:, 1:, None]
    real = (right[..., 0] != PAD).to(logged.dtype)
    if smoothing:
        target = torch.full_like(logged, smoothing / (logged.shape[-1] - 1)).scatter_(
            -1, right, 1 - smoothing
        )
        losses = kl_div(logged, target, reduction="none").sum(-1)
    else:
        losses = -logged.gather(-1, right)[..., 0]
    return (losses * real).sum() / real.sum()


def sample(
    step: Step, model: Any, state: State, length: int, said: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Draw one caption per row, or say the words of `said` [R, T].

    Log-probabilities [R, T] keep their graph.
    """
    rows = len(state["fixed.g"])
    words = torch.full((rows,), BOS, dtype=torch.long)
    done = torch.zeros(rows, dtype=torch.bool)
    drawn, chosen = [], []
    for place in range(length):
        scores, state = step(model, words, state)
        scores = scores.index_fill(-1, NEVER, -torch.inf).log_softmax(-1)
        words = torch.multinomial(scores.exp(), 1)[:, 0] if said is None else said[:, place]
        words = torch.where(done, PAD, words)
        chosen.append(
            torch.where(done | (words == PAD), 0.0, scores.gather(1, words[:, None])[:, 0])
        )
        done = done | (words == EOS)
        drawn.append(words)
    return torch.stack(drawn, 1), torch.stack(chosen, 1)


@torch.no_grad()
def greedy(step: Step, model: Any, state: State, length: int) -> Tensor:
    """Say the likeliest word, [R, T]."""
    rows = len(state["fixed.g"])
    words, done = torch.full((rows,), BOS, dtype=torch.long), torch.zeros(rows, dtype=torch.bool)
    said = []
    for _ in range(length):
        scores, state = step(model, words, state)
        words = scores.index_fill(-1, NEVER, -torch.inf).log_softmax(-1).argmax(-1)
        words = torch.where(done, PAD, words)
        done = done | (words == EOS)
        said.append(words)
    return torch.stack(said, 1)


@torch.no_grad()
def beam_search(step: Step, model: Any, state: State, beam: int, length: int) -> Tensor:
    """Return [images, beam, T], best first; `state` has one row per image."""
    images = len(state["fixed.g"])
    state = repeat(state, beam)
    words = torch.full((images * beam,), BOS, dtype=torch.long)
    total = torch.full((images, beam), -torch.inf).index_fill(1, torch.tensor([0]), 0.0)
    done = torch.zeros(images, beam, dtype=torch.bool)
    history = torch.empty(images, beam, 0, dtype=torch.long)
    first = torch.arange(images)[:, None] * beam
    for _ in range(length):
        scores, state = step(model, words, state)
        scores = scores.log_softmax(-1).unflatten(0, (images, beam))
        frozen = torch.full_like(scores, -torch.inf).index_fill(2, torch.tensor([PAD]), 0.0)
        scores = total[..., None] + torch.where(done[..., None], frozen, scores)
        best, flat = scores.flatten(1).sort(1, descending=True)
        total, flat = best[:, :beam], flat[:, :beam]
        parents, new = flat // scores.shape[-1], flat % scores.shape[-1]
        history = torch.cat(
            [history.gather(1, parents[..., None].expand_as(history)), new[..., None]], 2
        )
        done = done.gather(1, parents) | (new == EOS)
        rows = (first + parents).flatten()
        state = {
            n: v if n.startswith("fixed") else v.index_select(0, rows) for n, v in state.items()
        }
        words = new.flatten()
    return history
