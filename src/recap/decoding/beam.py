"""Beam search over all images and beams of a batch at once, with two ways to finish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recap.core.errors import ConfigError
from recap.decoding.step import DecodingBatch, S, Step, any_leave, forbid
from recap.settings.recipes import DecodingSettings


@dataclass(frozen=True)
class Beams:
    """The captions that a search ends with, best first."""

    tokens: Tensor  #: [B, K, max_length] without <bos>, padded after <eos>
    scores: Tensor  #: [B, K], what captions are ranked by
    log_probabilities: Tensor  #: [B, K], sums over the tokens, the end token among them


@torch.no_grad()
def beam_search(
    step: Step[S],
    state: S,
    batch: DecodingBatch,
    settings: DecodingSettings,
    bad_endings: Sequence[int] = (),
) -> Beams:
    """Find the most probable captions of each image.

    `finished` of the settings decides what becomes of a caption that ends: see `Finished.stay` and
    `Finished.set_aside`. Beams are compared by summed log-probability while the search runs; the
    final order divides by length ** `length_penalty` (the end token counts). An image leaves the
    batch when it is finished, so its result does not depend on its neighbors.

    `state` is that of B images before the first token, with one beam each; `bad_endings` are the
    ids of the words of `settings.rules.bad_endings`.
    """
    images, device = batch.images, batch.device
    found = Finished(batch, settings)
    active = torch.arange(images, device=device)  # images still searched
    tokens = torch.full((images, 1), batch.bos, dtype=torch.long, device=device)
    # summed log-probability of each beam, -inf: it has been set aside
    total = torch.zeros(images, 1, device=device)
    # ended, and still among the candidates
    done = torch.zeros(images, 1, dtype=torch.bool, device=device)
    history = torch.empty(images, 1, 0, dtype=torch.long, device=device)
    for length in range(1, settings.max_length + 1):
        log_probabilities, state = step(tokens, state)  # [B', K', V]
        allowed = forbid(
            settings.rules, history, log_probabilities, eos=batch.eos, bad_endings=bad_endings
        )
        total, beams, tokens = extend(total, done, allowed, beam=settings.beam, pad=batch.pad)
        before = history.gather(1, beams[..., None].expand(-1, -1, length - 1))
        history = torch.cat([before, tokens[..., None]], 2)
        done = done.gather(1, beams)
        ended = done | (tokens == batch.eos) | (length == settings.max_length)
        if settings.finished == "stay":
            done = ended
            leave = found.stay(active, history, total, ended)
        else:
            leave = found.set_aside(active, history, total, ended)
            total = total.masked_fill(ended, -torch.inf)
        if any_leave(leave, log_probabilities, active, length, together=batch.together):
            left = (~leave).nonzero()[:, 0]
            if not len(left):
                break
            active, tokens, beams = active[left], tokens[left], beams[left]
            total, done, history = total[left], done[left], history[left]
            state = state.select(left)
        state = state.reorder(beams)
    return found.ranked()


class Finished:
    """The K best captions of each image that a search has found so far.

    There are two ways to add the beams of the B' images that are still searched. Both take the
    images [B'], the tokens [B', K, t] of their beams, the sums of their log-probabilities [B', K]
    and whether they ended [B', K], and return which images are finished, [B'].
    """

    def __init__(self, batch: DecodingBatch, settings: DecodingSettings) -> None:
        self.pad = batch.pad
        self.beam = settings.beam
        self.longest = settings.max_length
        self.penalty = settings.length_penalty
        size = (batch.images, self.beam)
        self.tokens = torch.full(
            (*size, self.longest), self.pad, dtype=torch.long, device=batch.device
        )
        self.sums = torch.full(size, -torch.inf, device=batch.device)  # -inf: no caption yet
        self.scores: Tensor | None = None  # [B, K], of captions that were set aside

    def stay(self, images: Tensor, tokens: Tensor, sums: Tensor, ended: Tensor) -> Tensor:
        """Take the beams as they are: a caption that ended stays among them with its sum.

        An image is finished when all its beams ended.
        """
        self.tokens[images, :, : tokens.shape[-1]] = tokens
        self.sums = self.sums.to(sums.dtype)
        self.sums[images] = sums
        return ended.all(1)

    def set_aside(self, images: Tensor, tokens: Tensor, sums: Tensor, ended: Tensor) -> Tensor:
        """Add the beams that ended, as in ImageCaptioning.pytorch.

        The next best open caption takes the place of each at the next token, so that open captions
        never push one out. An image is finished when no open caption can become better than its K
        best.
        """
        length = tokens.shape[-1]
        if self.scores is None:
            self.sums = self.sums.to(sums.dtype)
            self.scores = self.sums.clone()
        new_sums = sums.masked_fill(~ended, -torch.inf)
        scores = torch.cat([self.scores[images], new_sums / length**self.penalty], 1)
        best, chosen = scores.topk(self.beam, dim=1)
        self.scores[images] = best
        self.sums[images] = torch.cat([self.sums[images], new_sums], 1).gather(1, chosen)
        padded = torch.nn.functional.pad(tokens, (0, self.longest - length), value=self.pad)
        captions = torch.cat([self.tokens[images], padded], 1)
        self.tokens[images] = captions.gather(1, chosen[..., None].expand(-1, -1, self.longest))
        # Sums only fall, and the penalty for length favors none more than the longest.
        hope = sums.masked_fill(ended, -torch.inf).amax(1) / self.longest**self.penalty
        return ~((hope > best[:, -1]) & hope.isfinite())

    def ranked(self) -> Beams:
        """Return the captions of each image in the order of their scores."""
        scores = self.scores
        if scores is None:
            lengths = (self.tokens != self.pad).sum(-1).clamp(min=1)
            scores = self.sums / lengths**self.penalty
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        tokens = self.tokens.gather(1, order[..., None].expand_as(self.tokens))
        return Beams(tokens, scores, self.sums.gather(1, order))


def extend(
    total: Tensor, done: Tensor, log_probabilities: Tensor, *, beam: int, pad: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Choose the best continuations: totals, continued beams and tokens, each [B, K]."""
    size = log_probabilities.shape[-1]
    if beam > size:
        raise ConfigError(
            f"a beam of {beam} is wider than the vocabulary of {size} tokens; lower `beam`, in "
            "training `validation_beam` or `samples`"
        )
    # [B, K', K]: no beam has more than K of the best K
    best, tokens = log_probabilities.topk(beam, dim=-1)
    # A finished beam has one continuation: padding, at no cost.
    only = torch.full_like(best[:1, :1], -torch.inf)
    only[..., 0] = 0.0
    best = torch.where(done[..., None], only, best)
    tokens = tokens.masked_fill(done[..., None], pad)
    total, flat = (total[..., None] + best).flatten(1).topk(beam, dim=1)
    return total, flat // beam, tokens.flatten(1).gather(1, flat)
