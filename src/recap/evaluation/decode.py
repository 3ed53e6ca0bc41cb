"""Captions of many images, batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch

from recap.core.progress import progress
from recap.data.vocabulary.special import BANNED, BOS, EOS, PAD
from recap.decoding.beam import beam_search
from recap.decoding.constraints import Constraint
from recap.decoding.diverse import diverse_beam_search
from recap.decoding.limits import DecodingLimits
from recap.decoding.step import with_banned_tokens
from recap.features.prefetch import prefetch
from recap.models.base import Captioner
from recap.nn.fast.linear import fixed_weights
from recap.runs.inputs import ReadsImages


@dataclass(frozen=True)
class Candidate:
    """A caption that beam search found: token ids without <bos>, <eos> and padding, and what it was ranked by.

    `log_probability` is the sum over its tokens, the end token among them; of diverse groups, less the penalty of their
    search for tokens of earlier groups.
    """

    tokens: list[int]
    score: float
    log_probability: float


def decode_images(
    model: Captioner, features: ReadsImages, image_ids: Sequence[int], **options: Any
) -> dict[int, list[int]]:
    """Return the best caption of each image as token ids; see `decode_candidates`."""
    found = decode_candidates(model, features, image_ids, **options)
    return {image: candidates[0].tokens for image, candidates in found.items()}


@fixed_weights()
def decode_candidates(
    model: Captioner,
    features: ReadsImages,
    image_ids: Sequence[int],
    *,
    beam: int,
    max_length: int,
    length_penalty: float,
    batch_size: int,
    device: torch.device,
    name: str,
    constraint: Constraint | None = None,
    groups: int = 1,
    diversity: float = 0.0,
) -> dict[int, list[Candidate]]:
    """Return the `beam` captions that the search ends with for each image, best first. <unk> is banned."""
    model.eval()
    step = with_banned_tokens(model.step, BANNED)
    found: dict[int, list[Candidate]] = {}
    batches = [image_ids[first : first + batch_size] for first in range(0, len(image_ids), batch_size)]
    with closing(prefetch((ids, features.read(ids)) for ids in batches)) as reading:
        for ids, images in progress(reading, name=name, unit="batches", total=len(batches)):
            state = model.start(model.encode(images.to(device)))
            limits = DecodingLimits(len(ids), max_length, BOS, EOS, PAD, device)
            options: dict[str, Any] = {"length_penalty": length_penalty, "constraint": constraint}
            if groups > 1:
                tokens, scores = diverse_beam_search(
                    step, state, limits, groups=groups, beam=beam // groups, strength=diversity, **options
                )
            else:
                tokens, scores = beam_search(step, state, limits, beam=beam, **options)
            scores, order = scores.sort(dim=1, descending=True, stable=True)  # diverse groups come one after the other
            tokens = tokens.gather(1, order[..., None].expand_as(tokens))
            sums = scores * (tokens != PAD).sum(-1) ** length_penalty
            rows = zip(ids, tokens.tolist(), scores.tolist(), sums.tolist(), strict=True)
            found |= {image: [_candidate(*beam) for beam in zip(*beams, strict=True)] for image, *beams in rows}
    return found


def _candidate(row: list[int], score: float, log_probability: float) -> Candidate:
    return Candidate([token for token in row if token not in (PAD, EOS)], score, log_probability)
