"""Scores captions by several metrics, one's failure costing no other, and writes scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from recap.core.checksums import record
from recap.core.documents import write_json
from recap.core.errors import MetricError
from recap.core.files import atomic_path
from recap.core.hashing import format_signature
from recap.core.version import VERSION
from recap.metrics import coco
from recap.metrics.base import Captions, Gap, Metric, Result, sanitize
from recap.metrics.java import java_executable
from recap.settings.metrics import COCO, METRICS


@dataclass
class Scores:
    """Scores of one set of captions, before the scale of tables.

    COCO's are fractions of 1 (CIDEr may exceed 1).
    """

    #: of COCO's metrics and those asked for; None where one did not run
    corpus: dict[str, float | None]
    per_image: dict[str, dict[int, float]]  #: name -> image id -> value; only names that ran
    tokenizer: str  #: ``ptb``, or ``simple`` where there is no Java
    #: fields of the signature: which versions scored
    versions: dict[str, str] = field(default_factory=dict)
    #: name -> why it has no value here, now or later
    not_run: dict[str, str] = field(default_factory=dict)
    #: Metric -> why it has no value, but may get one when tried again:
    #: Java is missing, or out of memory or time.
    failed: dict[str, str] = field(default_factory=dict)


def score(
    references: Mapping[int, Sequence[str]],
    hypotheses: Mapping[int, str],
    *,
    metrics: Sequence[str],
    **options: Any,
) -> Scores:
    """Score one raw caption per image, which may be empty, against its raw references by image id.

    ``metrics`` are names of `recap.settings.metrics.METRICS`; the options are those of
    `recap.metrics.base.Captions`.
    """
    scorers = {name: METRICS.get(name)() for name in metrics}
    with_references = {image_id for image_id, captions in references.items() if captions}
    if lacking := sorted(with_references ^ hypotheses.keys()):
        raise MetricError(
            f"image {lacking[0]} has no caption, or no references ({len(lacking)} such images)"
        )
    java = java_executable()
    tokenized = coco.tokenize_captions(references, hypotheses, java=java)
    captions = Captions(references, dict(sorted(hypotheses.items())), tokenized, java, **options)
    with ThreadPoolExecutor(2) as pool:
        jobs = {
            name: pool.submit(m.score, captions) for name, m in scorers.items() if "java" in m.needs
        }
        return _collect(captions, scorers, jobs)


def _collect(
    captions: Captions, scorers: Mapping[str, Metric], jobs: Mapping[str, Future[Result]]
) -> Scores:
    """Run the Python scorers, wait for the Java ones, and note why a score is missing."""
    scores = Scores(corpus={}, per_image={}, tokenizer=captions.tokenized.tokenizer)
    for name in dict.fromkeys([*COCO, *scorers]):
        names: tuple[str, ...] = METRICS.get(name).names
        scores.corpus |= dict.fromkeys(names)
        try:
            if name not in scorers:
                raise Gap("not asked for")
            result = jobs[name].result() if name in jobs else scorers[name].score(captions)
        except Exception as error:
            # one scorer's trouble must not cost the others; the reason goes into the result
            reason = (
                str(error) if isinstance(error, MetricError) else f"{type(error).__name__}: {error}"
            )
            if not isinstance(error, Gap) and (
                name in jobs or isinstance(error, MetricError | MemoryError)
            ):
                scores.failed[name] = reason
            else:  # a gap, or captions that a scorer cannot score, now or later
                scores.not_run.update(dict.fromkeys(names, reason))
            continue
        scores.corpus |= result.corpus
        scores.per_image |= result.per_image
        scores.versions |= scorers[name].version()
    return scores


def evaluate_captions(
    *,
    references: Mapping[int, Sequence[str]],
    hypotheses: Mapping[int, str],
    metrics: Sequence[str],
    split: str,
    split_hash: str,
    decoding: Any,
    out: Path,
    **options: Any,
) -> Scores:
    """Score captions; write ``captions.<split>.json``,
    ``scores.<split>.parquet`` and, last, ``metrics.json``.

    None is written where a metric failed that may run when tried again. ``decoding`` says how the
    captions were searched (`DecodingSettings`), or which file they are from (`OutsideCaptions`).
    Scores from outside are looked for in ``out``; the other arguments and the options are those of
    :func:`score`.
    """
    captions = {image_id: sanitize(caption) for image_id, caption in sorted(hypotheses.items())}
    scores = score(references, captions, metrics=metrics, folder=out, split=split, **options)
    if scores.failed:
        raise MetricError(
            f"{out}: {'; '.join(scores.failed.values())}; no score was written: see to Java, "
            "memory and time and repeat the command, or leave "
            f"{' and '.join(scores.failed)} out of the metrics"
        )
    import pyarrow as pa
    import pyarrow.parquet as pq

    counts = [len(texts) for texts in references.values()]
    signature = {
        "pycocoevalcap": version("pycocoevalcap"),
        **scores.versions,
        "tok": scores.tokenizer,
        "refs": f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)}-{max(counts)}",
        "images": f"{len(captions)}",
        "split": f"{split}@{split_hash}",
        **decoding.signature,
        "recap": VERSION,
    }
    values = {
        "scores": scores.corpus,
        "not_run": scores.not_run,
        "signature": format_signature(signature),
        "images": len(captions),
        "split": split,
        "decoding": decoding.model_dump(mode="json"),
    }
    texts = out / f"captions.{split}.json"
    write_json(texts, [{"image_id": i, "caption": text} for i, text in captions.items()])
    columns: dict[str, Any] = {"image_id": pa.array(captions, pa.int64())}
    for name, per_image in scores.per_image.items():
        columns[name] = pa.array([per_image[image_id] for image_id in captions], pa.float64())
    table = out / f"scores.{split}.parquet"
    with atomic_path(table) as temporary:
        pq.write_table(pa.table(columns), temporary, write_page_checksum=True)
    write_json(out / "metrics.json", values)
    record(texts, table, out / "metrics.json")
    return scores
