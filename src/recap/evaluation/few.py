"""A few captions of a trained run, each beside a reference: a first look, before any score."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recap.core.device import select_device
from recap.data.corpus import Corpus
from recap.evaluation.decode import best, caption_text, decode_candidates, ending_ids
from recap.runs.saved import open_runs
from recap.settings import EvaluationSpec

COUNT = 2


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
    """Return the caption and a reference of the first images, decoded as the evaluation of the run does.

    Without `images` those of the validation split are taken.
    """
    place = select_device(device)
    model, sources, vocab = open_runs([run], vocabulary=vocabulary, features=features, device=place)
    references = Corpus.read(corpus).captions(None if images else "val")
    first = list(images or references)[:COUNT]
    settings, endings = spec.evaluation, ending_ids(spec.evaluation.rules, vocab)
    found = best(decode_candidates(model, sources, first, settings, endings, device=place, name="captions"))
    return {image: (caption_text(vocab, found[image], settings), references[image][0]) for image in first}
