"""Beam search over all images and beams of a batch at once."""

from __future__ import annotations

import torch
from torch import Tensor

from recap.decoding.constraints import Constraint
from recap.decoding.limits import DecodingLimits
from recap.decoding.step import S, Step, check_finite


@torch.no_grad()
def beam_search(
    step: Step[S],
    state: S,
    limits: DecodingLimits,
    *,
    beam: int,
    length_penalty: float = 0.0,
    constraint: Constraint | None = None,
) -> tuple[Tensor, Tensor]:
    """Find the `beam` most probable captions of each image.

    A finished caption stays among the candidates with its score; an image leaves the batch when all its beams are
    finished, so its result does not depend on its neighbors. Beams are compared by summed log-probability while the
    search runs; the final order divides by length ** `length_penalty` (the end token counts).

    Args:
        step: see `recap.decoding.step.Step`.
        state: the state of B images before the first token, with one beam each.
        limits: B, ids and longest caption.
        beam: beams per image, K; at most the number of ids.
        length_penalty: exponent of the length.
        constraint: which tokens may not come next, see `recap.decoding.constraints`.

    Returns:
        Tokens [B, K, max_length] without <bos>, padded after <eos>, best first; scores [B, K] in the type of the
        log-probabilities.

    Raises:
        ValueError: the beam is wider than the vocabulary.
        NonFiniteLogits: a log-probability is NaN; names the position and the images.
    """
    images, device = limits.images, limits.device
    results = torch.full((images, beam, limits.max_length), limits.pad, dtype=torch.long, device=device)
    scores = torch.full((images, beam), -torch.inf, device=device)
    active = torch.arange(images, device=device)  # images still searched
    tokens = torch.full((images, 1), limits.bos, dtype=torch.long, device=device)
    total = torch.zeros(images, 1, device=device)  # summed log-probability of each beam
    done = torch.zeros(images, 1, dtype=torch.bool, device=device)
    history = torch.empty(images, 1, 0, dtype=torch.long, device=device)
    for length in range(1, limits.max_length + 1):
        log_probabilities, state = step(tokens, state)  # [B', K', V]
        check_finite(log_probabilities, active, length)
        scores = scores.to(log_probabilities.dtype)
        if constraint is not None:
            log_probabilities = constraint(history, log_probabilities)
        total, beams, tokens = _extend(total, done, log_probabilities, beam=beam, pad=limits.pad)
        history = torch.cat([history.gather(1, beams[..., None].expand(-1, -1, length - 1)), tokens[..., None]], 2)
        done = done.gather(1, beams) | (tokens == limits.eos)
        finished = done.all(1) | (length == limits.max_length)
        if finished.any():
            results[active[finished], :, :length] = history[finished]
            scores[active[finished]] = total[finished]
            unfinished = (~finished).nonzero()[:, 0]
            if not len(unfinished):
                break
            active, total, done, tokens, history, beams = (
                x[unfinished] for x in (active, total, done, tokens, history, beams)
            )
            state = state.select(unfinished)
        state = state.reorder(beams)
    if length_penalty:
        scores = scores / (results != limits.pad).sum(-1).clamp(min=1) ** length_penalty
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    return results.gather(1, order[..., None].expand_as(results)), scores


def _extend(
    total: Tensor, done: Tensor, log_probabilities: Tensor, *, beam: int, pad: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Choose the best continuations: totals [B, K], the beams they continue [B, K] and their tokens [B, K]."""
    size = log_probabilities.shape[-1]
    if beam > size:
        raise ValueError(f"beam {beam} is wider than the vocabulary of {size} words")
    best, tokens = log_probabilities.topk(beam, dim=-1)  # [B, K', K]: no beam has more than K of the best K
    # A finished beam has one continuation: padding, at no cost.
    only = torch.full_like(best[:1, :1], -torch.inf)
    only[..., 0] = 0.0
    best, tokens = torch.where(done[..., None], only, best), tokens.masked_fill(done[..., None], pad)
    total, flat = (total[..., None] + best).flatten(1).topk(beam, dim=1)
    return total, flat // beam, tokens.flatten(1).gather(1, flat)
