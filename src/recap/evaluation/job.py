"""Decode a split with a trained model and score it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from recap.core.config import Evaluation
from recap.core.device import select_device
from recap.core.errors import ConfigError
from recap.core.files.atomic import write_text
from recap.core.files.checksums import record
from recap.core.log import say
from recap.core.manifests import sha256_file, value_hash
from recap.core.metrics import score_info
from recap.core.params import validate
from recap.core.process.stop import Stop
from recap.core.source import code_digest
from recap.data.corpus.corpus import Corpus
from recap.data.vocabulary.words import EOS, UNK, AnyVocabulary, load_vocabulary
from recap.decoding.constraints import Constraint, Rules, constrained
from recap.evaluation.decode import Candidate, decode_candidates
from recap.evaluation.kept import Kept
from recap.features.store import FeatureStore
from recap.metrics.evaluate import evaluate_captions
from recap.metrics.scores import Scores
from recap.models.base import Captioner
from recap.models.ensemble import Ensemble
from recap.runs.saved import load_model


@Stop("evaluate")
def evaluate(
    *, spec: dict[str, Any], corpus: Path, vocabulary: Path, features: Path, model: Sequence[Path], out: Path
) -> None:
    """Write captions, per-image scores and corpus scores of `spec["evaluation"]`'s split into `out`; say the latter.

    With `n_best` the N best captions of each image are written, too: `nbest.<split>.jsonl`. Decoded captions are kept
    until they have been scored, so that a scorer that fails does not cost another search.

    Args:
        spec: {"evaluation", "device", "threads"}.
        corpus, vocabulary, features: the files that training saw.
        model: the run folder, or those of an ensemble's members.
        out: folder of the scores.
    """
    settings: Evaluation = validate(Evaluation, spec["evaluation"], "evaluation")
    device = select_device(spec["device"])
    torch.set_num_threads(spec["threads"])
    words, store, table = load_vocabulary(vocabulary), FeatureStore(features), Corpus.read(corpus)
    references = table.captions(settings.split)
    images = sorted(references)
    store.require(images)
    captioners = [load_model(folder, feature_size=store.dim, words=words).to(device) for folder in model]
    kept = Kept(out / f".decoded.{settings.split}.json", _identity(settings, words, store, table, model))
    found, name = kept.read(), " ".join(out.parts[-3:])
    if found is None:
        captioner = captioners[0] if len(captioners) == 1 else Ensemble(captioners)
        found = kept.write(_decode(settings, captioner, words, store, images, device, name))
    _write_n_best(out / f"nbest.{settings.split}.jsonl", settings.n_best, found, words)
    scores = evaluate_captions(
        references=references,
        hypotheses={image: words.decode(found[image][0].words) for image in images},
        metrics=settings.metrics,
        settings={
            "split": settings.split,
            "split_hash": table.split_hash,
            "beam": settings.beam,
            "max_length": settings.max_length,
            "length_penalty": settings.length_penalty,
            "constraints": settings.rules.text,
        },
        out=out,
    )
    kept.remove()
    say(f"{name}: {_line(scores)}")


def _line(scores: Scores) -> str:
    """Return the scores that ran as one line, on the scale of each."""
    ran = {name: value for name, value in scores.corpus.items() if value is not None}
    return ", ".join(f"{name} {score_info(name).scale * value:.2f}" for name, value in ran.items())


def _decode(
    settings: Evaluation,
    captioner: Captioner,
    words: AnyVocabulary,
    store: FeatureStore,
    images: list[int],
    device: torch.device,
    name: str,
) -> dict[int, list[Candidate]]:
    """Search the captions of all images; `name` is the run's, for messages."""
    return decode_candidates(
        captioner,
        store,
        images,
        beam=settings.beam,
        max_length=settings.max_length,
        length_penalty=settings.length_penalty,
        batch_size=settings.batch_size,
        device=device,
        name=f"{name}, beam {settings.beam}",
        constraint=_constraint(settings, words),
        groups=settings.rules.groups,
        diversity=settings.rules.diversity,
    )


def _identity(
    settings: Evaluation, words: AnyVocabulary, store: FeatureStore, table: Corpus, folders: Sequence[Path]
) -> str:
    """Return the hash of all that decoded captions depend on; how they are scored is no part of it."""
    return value_hash(
        {
            "settings": settings.model_dump(mode="json", exclude={"metrics"}),
            "split_hash": table.split_hash,
            "vocabulary_hash": words.hash,
            "feature_hash": store.feature_hash,
            "models": [
                sha256_file(folder / name) for folder in folders for name in ("config.yaml", "model.safetensors")
            ],
            "code": code_digest("evaluation/decode", "models/registry"),
        }
    )


def _write_n_best(path: Path, count: int, found: dict[int, list[Candidate]], words: AnyVocabulary) -> None:
    """Write a line of JSON for each of the `count` best captions of each image; with 0 none, nor keep an old file."""
    if not count:
        path.unlink(missing_ok=True)
        return
    lines = [
        json.dumps(
            {
                "image_id": image,
                "rank": rank,
                "score": candidate.score,
                "log_probability": candidate.log_probability,
                "caption": words.decode(candidate.words),
            },
            ensure_ascii=False,
        )
        for image, candidates in found.items()
        for rank, candidate in enumerate(candidates[:count], 1)
    ]
    write_text(path, "\n".join(lines) + "\n")
    record(path)


def _constraint(settings: Evaluation, words: AnyVocabulary) -> Constraint | None:
    """Turn the rules of a recipe into those of a vocabulary."""
    rules = settings.rules
    endings = words.encode(rules.bad_endings)
    if UNK in endings:
        raise ConfigError(
            f"evaluation.rules.bad_endings: {rules.bad_endings[endings.index(UNK)]!r} is no word of the vocabulary"
        )
    return constrained(Rules(EOS, rules.no_repeated_ngram, rules.no_immediate_repeat, endings))
