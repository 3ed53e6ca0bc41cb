"""Scores captions from a file, made by any other program, as the captions of a run are scored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from recap.core.hashing import value_hash
from recap.core.log import log
from recap.data.caption_files import read_captions
from recap.data.corpus import Corpus
from recap.metrics.scores import Scores, evaluate_captions
from recap.settings.metrics import FEW_IMAGES, score_info
from recap.settings.recipes import OutsideCaptions
from recap.statistics.comparison import LEVEL, percentile_interval
from recap.statistics.scores import read_metrics


def score_file(*, captions: Path, corpus: Path, split: str, metrics: Sequence[str], out: Path) -> Scores:
    """Write what an evaluation writes of a file's captions; the signature has their hash in place of the search."""
    table = Corpus.read(corpus)
    hypotheses = read_captions(captions, table, split)
    if "CIDEr" in metrics and len(hypotheses) < FEW_IMAGES:
        log.warning(
            f"{captions}: CIDEr weighs words by how many of the scored images have them; of {len(hypotheses)} images, "
            f"fewer than {FEW_IMAGES}, its value means little"
        )
    return evaluate_captions(
        references=table.captions(split),
        hypotheses=hypotheses,
        metrics=metrics,
        split=split,
        split_hash=table.split_hash,
        decoding=OutsideCaptions(captions_sha256=value_hash(hypotheses)),
        out=out,
        dataset=corpus.parent,
    )


def scores_text(scores: Scores, folder: Path) -> str:
    """Return the scores as lines for a person, with an interval over images and the signature of ``metrics.json``."""
    lines = [f"{'score':<15} {'corpus':>8} {'image mean':>11}   {100 * LEVEL:.0f} % interval of the image mean"]
    for name, value in scores.corpus.items():
        if value is not None:
            info, images = score_info(name), list(scores.per_image[name].values())
            numbers = value, fmean(images), *(percentile_interval(images) or ())
            total, mean, *ends = (f"{info.scale * each:.{info.digits + 1}f}" for each in numbers)
            lines.append(f"{name:<15} {total:>8} {mean:>11}   {' to '.join(ends) or '--'}")
        elif scores.not_run[name] != "not asked for":
            lines.append(f"{name:<15} {'--':>8}   {scores.not_run[name]}")
    return "\n".join([*lines, f"Signature: {read_metrics(folder).signature}"])
