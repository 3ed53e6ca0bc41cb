"""The older form of beam search, in which a caption that has ended gives its place to one that has not."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from recap.decoding.beam import Beams, extend
from recap.decoding.constraints import forbid
from recap.decoding.step import DecodingBatch, S, Step, any_finished
from recap.settings.recipes import DecodingSettings


@torch.no_grad()
def set_aside_search(
    step: Step[S], state: S, batch: DecodingBatch, settings: DecodingSettings, bad_endings: Sequence[int] = ()
) -> Beams:
    """Search each image with captions that are set aside when they end, as in ImageCaptioning.pytorch.

    K beams are continued at each token. One that ends, or is as long as allowed, joins the finished captions of its
    image; its place is taken by the next best open caption at the next token. The K best finished captions are the
    result, so that open captions never push one out, which they may in `beam_search`. An image leaves the batch when
    no open caption can become better than its K best. Arguments and errors: `beam_search`.
    """
    beam, rules, longest = settings.beam, settings.rules, settings.max_length
    device = batch.device
    kept = torch.full((batch.images, beam, longest), batch.pad, dtype=torch.long, device=device)
    scores = torch.full((batch.images, beam), -torch.inf, device=device)  # what the finished are ranked by
    sums = scores.clone()  # their log-probabilities
    active = torch.arange(batch.images, device=device)
    tokens = torch.full((batch.images, 1), batch.bos, dtype=torch.long, device=device)
    total = torch.zeros(batch.images, 1, device=device)  # -inf: the beam has been set aside
    history = torch.empty(batch.images, 1, 0, dtype=torch.long, device=device)
    for length in range(1, longest + 1):
        log_probabilities, state = step(tokens, state)  # [B', K', V]
        found = log_probabilities
        scores, sums = scores.to(log_probabilities.dtype), sums.to(log_probabilities.dtype)
        log_probabilities = forbid(rules, history, log_probabilities, eos=batch.eos, bad_endings=bad_endings)
        open_beams = torch.zeros_like(total, dtype=torch.bool)  # none of those continued has ended
        total, beams, tokens = extend(total, open_beams, log_probabilities, beam=beam, pad=batch.pad)
        history = torch.cat([history.gather(1, beams[..., None].expand(-1, -1, length - 1)), tokens[..., None]], 2)
        ended = (tokens == batch.eos) | (length == longest)
        new_sums = total.masked_fill(~ended, -torch.inf)
        new_scores = new_sums / length**settings.length_penalty
        padded = torch.nn.functional.pad(history, (0, longest - length), value=batch.pad)
        every = torch.cat([scores[active], new_scores], 1)
        scores[active], chosen = every.topk(beam, dim=1)
        sums[active] = torch.cat([sums[active], new_sums], 1).gather(1, chosen)
        both = torch.cat([kept[active], padded], 1)
        kept[active] = both.gather(1, chosen[..., None].expand(-1, -1, longest))
        total = total.masked_fill(ended, -torch.inf)
        open_images = _may_improve(total, scores[active], settings)
        if any_finished(~open_images, found, active, length):
            unfinished = open_images.nonzero()[:, 0]
            if not len(unfinished):
                break
            active, total, tokens, history, beams = (x[unfinished] for x in (active, total, tokens, history, beams))
            state = state.select(unfinished)
        state = state.reorder(beams)
    return Beams(kept, scores, sums).ranked()


def _may_improve(total: Tensor, scores: Tensor, settings: DecodingSettings) -> Tensor:
    """Return for images [B'] whether an open beam [B', K] can still end better than the worst finished caption.

    Sums only fall, and the penalty for length favors none more than the longest.
    """
    best = total.amax(1) / settings.max_length**settings.length_penalty
    return (best > scores[:, -1]) & best.isfinite()
