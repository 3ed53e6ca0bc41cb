"""The jobs of a trained model: caption a split and score it, caption the pictures of a server, caption a few images."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from recap.core.checksums import record
from recap.core.documents import write_json
from recap.core.errors import DataError
from recap.core.files import write_text
from recap.core.log import log
from recap.data.corpus import Corpus
from recap.data.datasets.coco import check_size
from recap.evaluation.decode import Decoder
from recap.metrics.base import sanitize
from recap.metrics.scores import evaluate_captions
from recap.settings.metrics import score_info
from recap.settings.recipes import EvaluationSpec, Execution

PIECE = 2_000  # pictures of a server whose captions are lost, at most, when the search is stopped
FEW = 2  # captions of a first look


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
    """Write captions, scores and with `n_best` the best N of a split into `out`; several models are an ensemble."""
    settings, name = spec.evaluation, " ".join(out.parts[-3:])
    torch.set_num_threads(execution.threads)
    table = Corpus.read(corpus)
    references = table.captions(settings.split)
    images = sorted(references)
    decoder = Decoder(model, settings, vocabulary=vocabulary, features=features, device=execution.device)
    decoder.sources.require(images)
    # Decoded captions stay until they are scored, so that a scorer that fails does not cost another search.
    cache = out / f".decoded.{settings.split}.json"
    candidates = decoder.cached(images, cache, f"{name}, beam {settings.beam}")
    ranked = {image: [decoder.text(each) for each in candidates[image][: settings.n_best or 1]] for image in images}
    n_best = out / f"nbest.{settings.split}.jsonl"
    if settings.n_best:
        rows = [
            {"image_id": image, "rank": rank, "score": c.score, "log_probability": c.log_probability, "caption": text}
            for image, texts in ranked.items()
            for rank, (text, c) in enumerate(zip(texts, candidates[image], strict=False), 1)
        ]
        write_text(n_best, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        record(n_best)
    else:
        n_best.unlink(missing_ok=True)  # of an earlier evaluation
    scores = evaluate_captions(
        references=references,
        hypotheses={image: texts[0] for image, texts in ranked.items()},
        metrics=settings.metrics,
        split=settings.split,
        split_hash=table.split_hash,
        decoding=settings.decoding,
        out=out,
        dataset=corpus.parent,
    )
    cache.unlink()
    ran = {key: value for key, value in scores.corpus.items() if value is not None}
    log.info(f"{name}: {', '.join(f'{key} {score_info(key).scale * value:.2f}' for key, value in ran.items())}")


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
    """Write one caption of each picture of a part of COCO (val2014), of which a `partial` corpus has fewer."""
    torch.set_num_threads(execution.threads)
    images = [image for image, file in Corpus.read(corpus).files().items() if file.startswith(f"{part}/")]
    if not images:
        raise DataError(f"{corpus}: no picture's name begins with {part}/; take the corpus of COCO's pictures of 2014")
    check_size(part, len(images), str(corpus), partial=partial)
    files: dict[str, Any] = {"vocabulary": vocabulary, "features": features, "other_pictures": True}
    decoder = Decoder(model, spec.evaluation, device=execution.device, **files)
    decoder.sources.require(images)
    captions: dict[int, str] = {}
    pieces = {out.with_name(f".{out.stem}.{first}.json"): first for first in range(0, len(images), PIECE)}
    for file, first in pieces.items():
        ids = images[first : first + PIECE]
        candidates = decoder.cached(ids, file, f"{part} {ids[0]} to {ids[-1]}, beam {spec.evaluation.beam}")
        captions |= {image: sanitize(decoder.text(ranked[0])) for image, ranked in candidates.items()}
    empty = [image for image, caption in captions.items() if not caption]
    if empty:
        which = f"image {empty[0]} has an empty caption ({len(empty)} such images of {len(captions)})"
        raise DataError(f"{model[0]}: {which}, which COCO's server refuses; train the model longer")
    write_json(out, [{"image_id": image, "caption": caption} for image, caption in captions.items()])
    record(out)
    for file in pieces:
        file.unlink()
    log.info(f"{out}: captions of {len(captions):,} pictures of {part}")


def caption_few(
    *,
    spec: EvaluationSpec,
    device: str,
    run: Path,
    corpus: Path,
    vocabulary: Path,
    features: Sequence[Path],
    images: Sequence[int] | None = None,
) -> dict[int, tuple[str, str]]:
    """Return the caption and a reference of the first images, by default of the validation split."""
    decoder = Decoder([run], spec.evaluation, vocabulary=vocabulary, features=features, device=device)
    references = Corpus.read(corpus).captions(None if images else "val")
    candidates = decoder.candidates(list(images or references)[:FEW], "captions")
    return {image: (decoder.text(ranked[0]), references[image][0]) for image, ranked in candidates.items()}
