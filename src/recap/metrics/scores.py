"""Scores one set of captions by several metrics, so that one that fails costs no other its score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from recap.core.errors import MetricError, nearest
from recap.metrics import coco
from recap.metrics.base import Captions, Gap, Metric, Result
from recap.metrics.java import java_executable
from recap.settings.metrics import COCO, METRICS

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass
class Scores:
    """Scores of one set of captions, before the scale of tables; COCO's are fractions of 1 (CIDEr may exceed 1).

    Attributes:
        corpus: one value per name of COCO's metrics and of those asked for; None where it did not run.
        per_image: name -> image id -> value; only names that ran.
        tokenizer: ``ptb`` or ``simple`` (the latter where there is no Java).
        versions: fields of the signature that say which versions of the metrics scored.
        not_run: name -> reason, for what has no value here (not asked for, SPICE without its models).
        failed: metric -> reason, for what should have a value and may get it when tried again: Java is missing, was
            killed, or ran out of memory or time.
    """

    corpus: dict[str, float | None]
    per_image: dict[str, dict[int, float]]
    tokenizer: str
    versions: dict[str, str] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def score(
    references: Mapping[int, Sequence[str]],
    hypotheses: Mapping[int, str],
    *,
    metrics: Sequence[str],
    timeout_seconds: float = 600,
    pictures: Callable[[int], Image] | None = None,
    folder: Path | None = None,
    split: str = "test",
    dataset: Path | None = None,
) -> Scores:
    """Score one caption per image against its references.

    Args:
        references: image id -> raw reference captions, at least one.
        hypotheses: image id -> raw generated caption; may be empty, which scores as an empty string.
        metrics: which metrics to run, of ``METRICS``.
        timeout_seconds: time limit of each Java program; one that runs longer is killed.
        pictures: returns the picture of an image id, for metrics that need pictures.
        folder: where scores from outside are looked for.
        split: name of the split, for the same.
        dataset: folder of the corpus, for metrics that read what lies beside it.

    Raises:
        MetricError: the ids differ, an image has no reference, a metric is unknown, or the tokenizer failed.
    """
    _check(references, hypotheses, metrics)
    java = java_executable()
    asked: dict[str, Metric] = {name: METRICS.get(name)() for name in metrics}
    tokenized = coco.tokenize_captions(references, hypotheses, java=java, timeout_seconds=timeout_seconds)
    ordered = {image_id: hypotheses[image_id] for image_id in sorted(hypotheses)}
    captions = Captions(references, ordered, tokenized, java, timeout_seconds, pictures, folder, split, dataset)
    with ThreadPoolExecutor(2) as pool:
        jobs = {name: pool.submit(m.score, captions) for name, m in asked.items() if "java" in m.needs}
        return _collect(captions, asked, jobs)


def _check(references: Mapping[int, Sequence[str]], hypotheses: Mapping[int, str], metrics: Sequence[str]) -> None:
    """Refuse what would be scored wrongly."""
    known = METRICS.names()
    for metric in metrics:
        if metric not in known:
            raise MetricError(f"unknown metric {metric!r}; {nearest(metric, known)}")
    for have, lack, what in ((references, hypotheses, "caption"), (hypotheses, references, "references")):
        missing = sorted(set(have) - set(lack))
        if missing:
            raise MetricError(f"image {missing[0]} has no {what} ({len(missing)} such images of {len(have)})")
    if not hypotheses:
        raise MetricError("there are no captions to score; is the split empty?")
    bare = sorted(image_id for image_id, captions in references.items() if not captions)
    if bare:
        raise MetricError(f"image {bare[0]} has no reference captions ({len(bare)} such images of {len(references)})")


def _collect(captions: Captions, asked: Mapping[str, Metric], jobs: Mapping[str, Future[Result]]) -> Scores:
    """Run the Python scorers, wait for the Java ones, and note why a score is missing."""
    scores = Scores(corpus={}, per_image={}, tokenizer=captions.tokenized.tokenizer)
    for name in dict.fromkeys([*COCO, *asked]):
        names: tuple[str, ...] = METRICS.get(name).names
        scores.corpus |= dict.fromkeys(names)
        try:
            if name not in asked:
                raise Gap("not asked for")
            result = jobs[name].result() if name in jobs else asked[name].score(captions)
        except Exception as error:  # one scorer's trouble must not cost the others; the reason goes into the result
            reason = str(error) if isinstance(error, MetricError) else f"{type(error).__name__}: {error}"
            if not isinstance(error, Gap) and (name in jobs or isinstance(error, MetricError | MemoryError)):
                scores.failed[name] = reason
            else:  # a gap, or captions that a scorer cannot score, now or later
                scores.not_run.update(dict.fromkeys(names, reason))
            continue
        scores.corpus |= result.corpus
        scores.per_image |= result.per_image
        scores.versions |= asked[name].version()
    return scores
