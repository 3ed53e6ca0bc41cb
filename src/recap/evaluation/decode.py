"""Captions of many images, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby

import torch

from recap.core.errors import ConfigError
from recap.core.log import progress
from recap.data.vocabulary import BANNED, BOS, EOS, PAD, UNK, AnyVocabulary
from recap.decoding.diverse import search
from recap.decoding.step import DecodingBatch, with_banned_tokens
from recap.features.ahead import prefetch
from recap.models.base import Captioner
from recap.nn.fast import fixed_weights
from recap.runs.inputs import ReadsImages
from recap.settings.recipes import DecodingRules, DecodingSettings


@dataclass(frozen=True)
class Candidate:
    """A caption that beam search found: token ids without <bos>, <eos> and padding, and what it was ranked by.

    `log_probability` is the sum over its tokens, the end token among them; of diverse groups, less the penalty of their
    search for tokens of earlier groups.
    """

    tokens: list[int]
    score: float
    log_probability: float


def best(candidates: Mapping[int, Sequence[Candidate]]) -> dict[int, list[int]]:
    """Return the token ids of each image's best caption."""
    return {image: ranked[0].tokens for image, ranked in candidates.items()}


@fixed_weights()
def decode_candidates(
    model: Captioner,
    features: ReadsImages,
    image_ids: Sequence[int],
    settings: DecodingSettings,
    bad_endings: Sequence[int] = (),
    *,
    device: torch.device,
    name: str,
) -> dict[int, list[Candidate]]:
    """Return all captions that the search ends with for each image, best first. <unk> is banned.

    `bad_endings` are `ending_ids` of the rules; `device` is where the model is, `name` is for the progress line.
    """
    model.eval()
    step = with_banned_tokens(model.step, BANNED)
    found: dict[int, list[Candidate]] = {}
    size = settings.batch_size
    batches = [image_ids[first : first + size] for first in range(0, len(image_ids), size)]
    with closing(prefetch((ids, features.read(ids)) for ids in batches)) as reading:
        for ids, images in progress(reading, name=name, unit="batches", total=len(batches)):
            state = model.start(model.encode(images.to(device)))
            beams = search(step, state, DecodingBatch(len(ids), BOS, EOS, PAD, device), settings, bad_endings)
            numbers = (x.tolist() for x in (beams.tokens, beams.scores, beams.log_probabilities))
            for image, *rows in zip(ids, *numbers, strict=True):
                found[image] = [
                    Candidate([token for token in tokens if token not in (PAD, EOS)], score, log_probability)
                    for tokens, score, log_probability in zip(*rows, strict=True)
                ]
    return found


def caption_text(vocabulary: AnyVocabulary, tokens: Sequence[int], settings: DecodingSettings) -> str:
    """Return a caption as text; with `merge_repeats` words that equal the one before are left out."""
    text = vocabulary.decode(tokens)
    return " ".join(word for word, _ in groupby(text.split())) if settings.merge_repeats else text


def ending_ids(rules: DecodingRules, vocabulary: AnyVocabulary) -> list[int]:
    """Return the ids of the words that a caption may not end on."""
    ids = vocabulary.encode(rules.bad_endings)
    if UNK in ids:
        raise ConfigError(
            f"evaluation.rules.bad_endings: {rules.bad_endings[ids.index(UNK)]!r} is no word of the vocabulary"
        )
    return ids
