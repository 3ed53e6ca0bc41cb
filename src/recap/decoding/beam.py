"""Beam search over all images and beams of a batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recap.core.errors import ConfigError
from recap.decoding.constraints import forbid
from recap.decoding.step import DecodingBatch, S, Step, any_finished
from recap.settings.recipes import DecodingSettings


@dataclass(frozen=True)
class Beams:
    """The captions that a search ends with, best first."""

    tokens: Tensor  #: [B, K, max_length] without <bos>, padded after <eos>
    scores: Tensor  #: [B, K], what captions are ranked by
    log_probabilities: Tensor  #: [B, K], sums over the tokens, the end token among them

    def ranked(self) -> Beams:
        """Return the captions of each image in the order of their scores."""
        scores, order = self.scores.sort(dim=1, descending=True, stable=True)
        tokens = self.tokens.gather(1, order[..., None].expand_as(self.tokens))
        return Beams(tokens, scores, self.log_probabilities.gather(1, order))


@torch.no_grad()
def beam_search(
    step: Step[S], state: S, batch: DecodingBatch, settings: DecodingSettings, bad_endings: Sequence[int] = ()
) -> Beams:
    """Find the most probable captions of each image; `search` also knows diverse groups.

    A finished caption stays among the candidates with its score; an image leaves the batch when all its beams are
    finished, so its result does not depend on its neighbors. Beams are compared by summed log-probability while the
    search runs; the final order divides by length ** `length_penalty` (the end token counts).

    `state` is that of B images before the first token, with one beam each; `bad_endings` are the ids of the words of
    `settings.rules.bad_endings`.
    """
    if settings.rules.bad_endings and not bad_endings:
        raise ValueError("the rules have bad endings, but their ids are not given")
    images, device, beam, rules = batch.images, batch.device, settings.beam, settings.rules
    results = torch.full((images, beam, settings.max_length), batch.pad, dtype=torch.long, device=device)
    sums = torch.full((images, beam), -torch.inf, device=device)  # log-probabilities of the results
    active = torch.arange(images, device=device)  # images still searched
    tokens = torch.full((images, 1), batch.bos, dtype=torch.long, device=device)
    total = torch.zeros(images, 1, device=device)  # summed log-probability of each beam
    done = torch.zeros(images, 1, dtype=torch.bool, device=device)
    history = torch.empty(images, 1, 0, dtype=torch.long, device=device)
    for length in range(1, settings.max_length + 1):
        log_probabilities, state = step(tokens, state)  # [B', K', V]
        found = log_probabilities
        sums = sums.to(log_probabilities.dtype)
        log_probabilities = forbid(rules, history, log_probabilities, eos=batch.eos, bad_endings=bad_endings)
        total, beams, tokens = extend(total, done, log_probabilities, beam=beam, pad=batch.pad)
        history = torch.cat([history.gather(1, beams[..., None].expand(-1, -1, length - 1)), tokens[..., None]], 2)
        done = done.gather(1, beams) | (tokens == batch.eos)
        finished = done.all(1) | (length == settings.max_length)
        if any_finished(finished, found, active, length):
            results[active[finished], :, :length] = history[finished]
            sums[active[finished]] = total[finished]
            unfinished = (~finished).nonzero()[:, 0]
            if not len(unfinished):
                break
            active, total, done, tokens, history, beams = (
                x[unfinished] for x in (active, total, done, tokens, history, beams)
            )
            state = state.select(unfinished)
        state = state.reorder(beams)
    scores = sums
    if settings.length_penalty:
        scores = sums / (results != batch.pad).sum(-1).clamp(min=1) ** settings.length_penalty
    return Beams(results, scores, sums).ranked()


def extend(
    total: Tensor, done: Tensor, log_probabilities: Tensor, *, beam: int, pad: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Choose the best continuations: totals [B, K], the beams they continue [B, K] and their tokens [B, K]."""
    size = log_probabilities.shape[-1]
    if beam > size:
        raise ConfigError(
            f"a beam of {beam} is wider than the vocabulary of {size} tokens; lower `beam`, in training "
            "`validation_beam` or `samples`"
        )
    best, tokens = log_probabilities.topk(beam, dim=-1)  # [B, K', K]: no beam has more than K of the best K
    # A finished beam has one continuation: padding, at no cost.
    only = torch.full_like(best[:1, :1], -torch.inf)
    only[..., 0] = 0.0
    best, tokens = torch.where(done[..., None], only, best), tokens.masked_fill(done[..., None], pad)
    total, flat = (total[..., None] + best).flatten(1).topk(beam, dim=1)
    return total, flat // beam, tokens.flatten(1).gather(1, flat)
