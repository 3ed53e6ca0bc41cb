"""Captions of many images by a trained model:
decoded batch by batch, scored, or written for a server of captions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import torch

from recap.core.checksums import record
from recap.core.device import select_device
from recap.core.documents import read_json, write_json
from recap.core.errors import ConfigError, DataError, RecapError
from recap.core.files import write_text
from recap.core.hashing import sha256_file, value_hash
from recap.core.log import log, progress
from recap.core.threads import prefetch
from recap.data.caption_files import filled_captions
from recap.data.corpus import Corpus
from recap.data.datasets.coco import check_size
from recap.data.vocabulary import BANNED, BOS, EOS, PAD, UNK, AnyVocabulary, load_vocabulary
from recap.decoding.beam import Beams, beam_search
from recap.decoding.step import DecodingBatch, with_banned_tokens
from recap.metrics.base import sanitize
from recap.metrics.scores import evaluate_captions
from recap.models.base import Captioner
from recap.models.compiled import is_compiled
from recap.models.ensemble import Ensemble
from recap.nn.fast import fixed_weights
from recap.plan.source import job_code
from recap.runs.folder import CONFIG, WEIGHTS, check_inputs, load_model, run_model_config
from recap.runs.inputs import FeatureSources, ReadsImages
from recap.settings.metrics import score_info
from recap.settings.recipes import DecodingRules, DecodingSettings, EvaluationSpec, Execution

PIECE = 2_000  # pictures of a server whose captions are lost, at most, when the search is stopped


class Candidate(NamedTuple):
    """A caption that beam search ended with, and what it was ranked by."""

    tokens: list[int]  # without <bos>, <eos> and padding
    score: float
    log_probability: float  # sum over its tokens with the end token


Candidates = dict[int, list[Candidate]]  # image id -> its captions, best first


@dataclass(frozen=True)
class _Searched:
    """Captions that a job has searched and not yet scored."""

    hash: str
    captions: list[tuple[int, list[Candidate]]]


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
            batch = DecodingBatch(len(ids), BOS, EOS, PAD, device, together=is_compiled(model))
            beams = beam_search(
                step, model.start(model.encode(images.to(device))), batch, settings, bad_endings
            )
            candidates |= zip(ids, _candidates(beams), strict=True)
    return candidates


def _candidates(beams: Beams) -> Iterator[list[Candidate]]:
    """Yield the captions of each image of a batch, best first."""
    rows = (beams.tokens.tolist(), beams.scores.tolist(), beams.log_probabilities.tolist())
    for captions, scores, log_probabilities in zip(*rows, strict=True):
        candidates = []
        for tokens, score, log_probability in zip(captions, scores, log_probabilities, strict=True):
            words = [token for token in tokens if token not in (PAD, EOS)]
            candidates.append(Candidate(words, score, log_probability))
        yield candidates


def caption_text(
    vocabulary: AnyVocabulary, tokens: Sequence[int], settings: DecodingSettings
) -> str:
    """Return a caption as text; with `merge_repeats` repeated words are left out."""
    text = vocabulary.decode(tokens)
    return " ".join(word for word, _ in groupby(text.split())) if settings.merge_repeats else text


def best_texts(
    vocabulary: AnyVocabulary, candidates: Sequence[Candidate], settings: DecodingSettings
) -> dict[str, Candidate]:
    """Return the `n_best` best captions by text, at least one.

    Of several with the same text, the best one.
    """
    texts: dict[str, Candidate] = {}
    for candidate in candidates:
        texts.setdefault(caption_text(vocabulary, candidate.tokens, settings), candidate)
        if len(texts) == (settings.n_best or 1):
            break
    return texts


def ending_ids(rules: DecodingRules, vocabulary: AnyVocabulary) -> list[int]:
    """Return the ids of the words that a caption may not end on."""
    ids = vocabulary.encode(rules.bad_endings)
    if UNK in ids:
        word = rules.bad_endings[ids.index(UNK)]
        raise ConfigError(f"evaluation.rules.bad_endings: {word!r} is no word of the vocabulary")
    return ids


class Decoder:
    """A trained run, or the ensemble of several, with its inputs and its search."""

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
        self.runs = runs
        self.settings = settings
        self.device = select_device(device)
        self.vocabulary = load_vocabulary(vocabulary)
        self.sources = FeatureSources(features)
        for run in runs:
            check_inputs(
                run, vocabulary, self.vocabulary, self.sources.stores, other_pictures=other_pictures
            )
        inputs = self.sources.input_spec(self.vocabulary)
        models = [load_model(run, inputs) for run in runs]
        self.sources.choose(models, inputs)
        self.model: Captioner = (
            (models[0] if len(models) == 1 else Ensemble(models)).to(self.device).eval()
        )
        self._endings = ending_ids(settings.rules, self.vocabulary)

    def candidates(self, image_ids: Sequence[int], name: str) -> Candidates:
        """Search captions; the name is for the progress line."""
        return decode_candidates(
            self.model,
            self.sources,
            image_ids,
            self.settings,
            self._endings,
            device=self.device,
            name=name,
        )

    def cached(self, image_ids: Sequence[int], file: Path, name: str) -> Candidates:
        """Return captions that an interrupted job left of this search, or search and write them."""
        identity = value_hash([self._identity, self.sources.hash_of(image_ids)])
        if file.exists():
            try:
                saved: _Searched = read_json(file, _Searched)
                if saved.hash == value_hash([identity, saved.captions]):
                    log.info(f"{file}: captions of a job that did not end are taken from here")
                    return dict(saved.captions)
            except RecapError as error:
                log.warning(f"{error} (its captions are searched again)")
        candidates = self.candidates(image_ids, name)
        captions = list(candidates.items())
        write_text(
            file, json.dumps({"hash": value_hash([identity, captions]), "captions": captions})
        )
        return candidates

    @cached_property
    def _identity(self) -> list[Any]:
        # how captions are scored
        settings = self.settings.model_dump(mode="json", exclude={"metrics", "split"})
        files = []
        for run in self.runs:
            files += [run / CONFIG, run / WEIGHTS]
        code = job_code(
            "recap.evaluation.decode:Decoder",
            *sorted({run_model_config(run).kind for run in self.runs}),
        )
        return [settings, self.vocabulary.hash, *map(sha256_file, files), code]

    def text(self, candidate: Candidate) -> str:
        """Return a caption as text."""
        return caption_text(self.vocabulary, candidate.tokens, self.settings)


def evaluate(
    *,
    spec: EvaluationSpec,
    execution: Execution,
    corpus: Path,
    vocabulary: Path,
    features: Sequence[Path],
    model: Sequence[Path],
    out: Path,
) -> None:
    """Write captions, scores and with `n_best` the best N of a split into `out`.

    Several models are an ensemble.
    """
    settings = spec.evaluation
    name = " ".join(out.parts[-3:])
    torch.set_num_threads(execution.threads)
    table = Corpus.read(corpus)
    references = table.captions(settings.split)
    images = sorted(references)
    decoder = Decoder(
        model, settings, vocabulary=vocabulary, features=features, device=execution.device
    )
    # Decoded captions stay until they are scored,
    # so that a scorer that fails does not cost another search.
    cache = out / f".decoded.{settings.split}.json"
    candidates = decoder.cached(images, cache, f"{name}, beam {settings.beam}")
    ranked = {
        image: best_texts(decoder.vocabulary, candidates[image], settings) for image in images
    }
    n_best = out / f"nbest.{settings.split}.jsonl"
    if settings.n_best:
        _write_n_best(ranked, n_best)
    else:
        n_best.unlink(missing_ok=True)  # of an earlier evaluation
    scores = evaluate_captions(
        references=references,
        hypotheses={image: next(iter(texts)) for image, texts in ranked.items()},
        metrics=settings.metrics,
        split=settings.split,
        split_hash=table.split_hash,
        decoding=settings.decoding,
        out=out,
        dataset=corpus.parent,
    )
    cache.unlink()
    texts = []
    for key, value in scores.corpus.items():
        if value is not None:
            texts.append(f"{key} {score_info(key).scale * value:.2f}")
    log.info(f"{name}: {', '.join(texts)}")


def _write_n_best(ranked: Mapping[int, Mapping[str, Candidate]], out: Path) -> None:
    """Write the captions of each image, best first, as a JSON object per line."""
    lines = []
    for image, texts in ranked.items():
        for rank, (text, candidate) in enumerate(texts.items(), 1):
            row = {
                "image_id": image,
                "rank": rank,
                "score": candidate.score,
                "log_probability": candidate.log_probability,
                "caption": text,
            }
            lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    write_text(out, "".join(lines))
    record(out)


def caption_part(
    *,
    spec: EvaluationSpec,
    execution: Execution,
    part: str,
    partial: bool,
    corpus: Path,
    vocabulary: Path,
    features: Sequence[Path],
    model: Sequence[Path],
    out: Path,
) -> None:
    """Write a caption of each picture of a part of COCO; a `partial` corpus has fewer."""
    torch.set_num_threads(execution.threads)
    images = [
        image for image, file in Corpus.read(corpus).files().items() if file.startswith(f"{part}/")
    ]
    if not images:
        raise DataError(
            f"{corpus}: no picture's name begins with {part}/; take the corpus of COCO's pictures "
            "of 2014"
        )
    check_size(part, len(images), str(corpus), partial=partial)
    decoder = Decoder(
        model,
        spec.evaluation,
        vocabulary=vocabulary,
        features=features,
        device=execution.device,
        other_pictures=True,
    )
    decoder.sources.require(images)  # all of them, before the first piece is searched
    ranked: dict[int, list[str]] = {}
    pieces = []
    for first in range(0, len(images), PIECE):
        ids = images[first : first + PIECE]
        name = f"{part} {ids[0]} to {ids[-1]}, beam {spec.evaluation.beam}"
        pieces.append(out.with_name(f".{out.stem}.{first}.json"))
        for image, found in decoder.cached(ids, pieces[-1], name).items():
            ranked[image] = [sanitize(decoder.text(each)) for each in found]
    captions = filled_captions(ranked, out)
    write_json(out, [{"image_id": image, "caption": text} for image, text in captions.items()])
    record(out)
    for file in pieces:
        file.unlink()
    log.info(f"{out}: captions of {len(captions):,} pictures of {part}")
