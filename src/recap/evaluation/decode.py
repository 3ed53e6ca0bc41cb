"""Captions of many images by a trained model, batch by batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import torch

from recap.core.device import select_device
from recap.core.errors import ConfigError
from recap.core.files import write_text
from recap.core.hashing import sha256_file, value_hash
from recap.core.log import log, progress
from recap.data.vocabulary import BANNED, BOS, EOS, PAD, UNK, AnyVocabulary
from recap.decoding.beam import search
from recap.decoding.step import DecodingBatch, with_banned_tokens
from recap.features.ahead import prefetch
from recap.models.base import Captioner
from recap.nn.fast import fixed_weights
from recap.plan.source import job_code
from recap.runs.folder import CONFIG, WEIGHTS, open_runs, run_model_config
from recap.runs.inputs import ReadsImages
from recap.settings.recipes import DecodingRules, DecodingSettings


class Candidate(NamedTuple):
    """A caption that beam search found: token ids without <bos>, <eos> and padding, and what it was ranked by.

    `log_probability` is the sum over its tokens with the end token; of diverse groups, less their search's penalty.
    """

    tokens: list[int]
    score: float
    log_probability: float


Candidates = dict[int, list[Candidate]]  # image id -> its captions, best first


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
) -> Candidates:
    """Return all captions that the search ends with for each image, best first. <unk> is banned."""
    model.eval()
    step = with_banned_tokens(model.step, BANNED)
    candidates: Candidates = {}
    size = settings.batch_size
    batches = [image_ids[first : first + size] for first in range(0, len(image_ids), size)]
    with closing(prefetch((ids, features.read(ids)) for ids in batches)) as reading:
        for ids, images in progress(reading, name=name, unit="batches", total=len(batches)):
            state = model.start(model.encode(images.to(device)))
            beams = search(step, state, DecodingBatch(len(ids), BOS, EOS, PAD, device), settings, bad_endings)
            numbers = (x.tolist() for x in (beams.tokens, beams.scores, beams.log_probabilities))
            for image, *rows in zip(ids, *numbers, strict=True):
                candidates[image] = [
                    Candidate([token for token in tokens if token not in (PAD, EOS)], score, log_probability)
                    for tokens, score, log_probability in zip(*rows, strict=True)
                ]
    return candidates


def caption_text(vocabulary: AnyVocabulary, tokens: Sequence[int], settings: DecodingSettings) -> str:
    """Return a caption as text; with `merge_repeats` words that equal the one before are left out."""
    text = vocabulary.decode(tokens)
    return " ".join(word for word, _ in groupby(text.split())) if settings.merge_repeats else text


def ending_ids(rules: DecodingRules, vocabulary: AnyVocabulary) -> list[int]:
    """Return the ids of the words that a caption may not end on."""
    ids = vocabulary.encode(rules.bad_endings)
    if UNK in ids:
        word = rules.bad_endings[ids.index(UNK)]
        raise ConfigError(f"evaluation.rules.bad_endings: {word!r} is no word of the vocabulary")
    return ids


class Decoder:
    """A trained run, or the ensemble of several, with what it reads and how it searches captions."""

    def __init__(
        self,
        runs: Sequence[Path],
        settings: DecodingSettings,
        *,
        vocabulary: Path,
        features: Sequence[Path],
        device: str = "cpu",
        other_pictures: bool = False,
    ) -> None:
        self.runs, self.settings, self.device = runs, settings, select_device(device)
        self.model, self.sources, self.vocabulary = open_runs(
            runs, vocabulary=vocabulary, features=features, device=self.device, other_pictures=other_pictures
        )
        self._endings = ending_ids(settings.rules, self.vocabulary)

    def candidates(self, image_ids: Sequence[int], name: str) -> Candidates:
        """Search captions; the name is for the progress line."""
        searched = self.model, self.sources, image_ids, self.settings, self._endings
        return decode_candidates(*searched, device=self.device, name=name)

    def cached(self, image_ids: Sequence[int], file: Path, name: str) -> Candidates:
        """Return captions of this very search that an interrupted job left in a file, or search and write them."""
        identity = [self._identity, self.sources.hash_of(image_ids)]
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if content["hash"] == value_hash([identity, content["captions"]]):
                log.info(f"{file}: captions of a job that did not end are taken from here")
                return {image: [Candidate(*each) for each in ranked] for image, ranked in content["captions"]}
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError):
            log.warning(f"{file}: damaged; its captions are searched again")
        candidates = self.candidates(image_ids, name)
        captions = list(candidates.items())
        write_text(file, json.dumps({"hash": value_hash([identity, captions]), "captions": captions}))
        return candidates

    @cached_property
    def _identity(self) -> list[Any]:
        settings = self.settings.model_dump(mode="json", exclude={"metrics", "split"})  # how captions are scored
        files = [run / name for run in self.runs for name in (CONFIG, WEIGHTS)]
        code = job_code("recap.evaluation.decode", *sorted({run_model_config(run).kind for run in self.runs}))
        return [settings, self.vocabulary.hash, *map(sha256_file, files), code]

    def text(self, candidate: Candidate) -> str:
        """Return a caption as text."""
        return caption_text(self.vocabulary, candidate.tokens, self.settings)
