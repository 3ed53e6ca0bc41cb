"""Decode a split with a trained model and score it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from recap.core.checksums import record
from recap.core.device import select_device
from recap.core.files import write_text
from recap.core.hashing import sha256_file, value_hash
from recap.core.log import log
from recap.data.corpus import Corpus
from recap.data.vocabulary import AnyVocabulary
from recap.evaluation.decode import Candidate, caption_text, decode_candidates, ending_ids
from recap.evaluation.kept import Kept
from recap.metrics.scores import Scores, evaluate_captions
from recap.plan.identities import job_code
from recap.runs.saved import open_runs, run_model_config
from recap.settings import Evaluation, EvaluationSpec, Execution
from recap.settings.metrics import score_info


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
    """Write captions, per-image scores and corpus scores of the spec's split into `out`; say the latter.

    With `n_best` the N best captions of each image are written, too: `nbest.<split>.jsonl`. Decoded captions are kept
    until they have been scored, so that a scorer that fails does not cost another search. Several `model` folders are
    the members of an ensemble.
    """
    settings, device = spec.evaluation, select_device(execution.device)
    torch.set_num_threads(execution.threads)
    table = Corpus.read(corpus)
    references = table.captions(settings.split)
    images = sorted(references)
    captioner, sources, vocab = open_runs(model, vocabulary=vocabulary, features=features, device=device)
    sources.require(images)
    identity = _identity(settings, vocab, sources.hash_of(images), table, model)
    kept = Kept(out / f".decoded.{settings.split}.json", identity)
    found, name = kept.read(), " ".join(out.parts[-3:])
    if found is None:
        endings = ending_ids(settings.rules, vocab)
        beam = f"{name}, beam {settings.beam}"
        found = kept.write(decode_candidates(captioner, sources, images, settings, endings, device=device, name=beam))
    _write_n_best(out / f"nbest.{settings.split}.jsonl", found, vocab, settings)
    scores = evaluate_captions(
        references=references,
        hypotheses={image: caption_text(vocab, found[image][0].tokens, settings) for image in images},
        metrics=settings.metrics,
        split=settings.split,
        split_hash=table.split_hash,
        decoding=settings.decoding,
        out=out,
        dataset=corpus.parent,
    )
    kept.remove()
    log.info(f"{name}: {_line(scores)}")


def _line(scores: Scores) -> str:
    """Return the scores that ran as one line, on the scale of each."""
    ran = {name: value for name, value in scores.corpus.items() if value is not None}
    return ", ".join(f"{name} {score_info(name).scale * value:.2f}" for name, value in ran.items())


def _identity(
    settings: Evaluation, vocabulary: AnyVocabulary, feature_hash: str, table: Corpus, folders: Sequence[Path]
) -> str:
    """Return the hash of all that decoded captions depend on; how they are scored is no part of it."""
    kinds = {run_model_config(folder).kind for folder in folders}
    return value_hash(
        {
            "settings": settings.model_dump(mode="json", exclude={"metrics"}),
            "split_hash": table.split_hash,
            "vocabulary_hash": vocabulary.hash,
            "feature_hash": feature_hash,
            "models": [
                sha256_file(folder / name) for folder in folders for name in ("config.yaml", "model.safetensors")
            ],
            "code": job_code("recap.evaluation.decode", *sorted(kinds)),
        }
    )


def _write_n_best(
    path: Path, found: dict[int, list[Candidate]], vocabulary: AnyVocabulary, settings: Evaluation
) -> None:
    """Write a line of JSON for each of the `n_best` best captions of each image; with 0 none, nor keep an old file."""
    if not settings.n_best:
        path.unlink(missing_ok=True)
        return
    lines = [
        json.dumps(
            {
                "image_id": image,
                "rank": rank,
                "score": candidate.score,
                "log_probability": candidate.log_probability,
                "caption": caption_text(vocabulary, candidate.tokens, settings),
            },
            ensure_ascii=False,
        )
        for image, candidates in found.items()
        for rank, candidate in enumerate(candidates[: settings.n_best], 1)
    ]
    write_text(path, "\n".join(lines) + "\n")
    record(path)
