"""Scores the captions of one run and writes captions, scores per image, and metrics with their signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recap.core.errors import MetricError
from recap.core.files.atomic import atomic_path, write_json
from recap.core.files.checksums import record
from recap.metrics.coco import NAMES, Scores, score
from recap.metrics.sanitise import sanitise
from recap.metrics.signature import reference_range, signature

SETTINGS = ("split", "split_hash", "beam", "max_length", "length_penalty")


def evaluate_captions(
    *,
    references: Mapping[int, Sequence[str]],
    hypotheses: Mapping[int, str],
    metrics: Sequence[str],
    settings: Mapping[str, Any],
    out: Path,
    timeout_seconds: float = 600,
) -> Scores:
    """Score captions and write ``captions.<split>.json``, ``scores.<split>.parquet`` and ``metrics.json`` into ``out``.

    Args:
        references: image id -> raw reference captions.
        hypotheses: image id -> raw generated caption.
        metrics: groups to run: BLEU, METEOR, ROUGE-L, CIDEr, SPICE.
        settings: how the captions were made: ``split``, ``split_hash``, ``beam``, ``max_length``, ``length_penalty``
            and, where decoding was constrained, ``constraints``.
        out: folder for the three files; ``metrics.json`` is written last.
        timeout_seconds: longest time of each Java program.

    Raises:
        MetricError: as :func:`recap.metrics.coco.score`, or a setting is missing, or a metric failed that may run when
            tried again; then no file is written.
    """
    missing = [key for key in SETTINGS if key not in settings]
    if missing:
        raise MetricError(f"the evaluation settings lack {missing[0]!r}; needed are {', '.join(SETTINGS)}")
    refs = {int(image_id): list(captions) for image_id, captions in references.items()}
    captions = {int(image_id): sanitise(caption) for image_id, caption in sorted(hypotheses.items())}
    scores = score(refs, captions, metrics=metrics, timeout_seconds=timeout_seconds)
    if scores.failed:
        raise MetricError(
            f"{out}: {'; '.join(scores.failed.values())}; no score was written, so the same command tries again: "
            f"see to Java, memory and time, or take {' and '.join(scores.failed)} out of evaluation.metrics"
        )
    line = signature(
        tokenizer=scores.tokenizer,
        references=reference_range(refs),
        images=len(captions),
        constraints=settings.get("constraints", ""),
        **{key: settings[key] for key in SETTINGS},
    )
    split = settings["split"]
    files = [out / name for name in (f"captions.{split}.json", f"scores.{split}.parquet", "metrics.json")]
    write_json(files[0], [{"image_id": i, "caption": text} for i, text in captions.items()])
    _write_scores(files[1], list(captions), scores)
    values = {"scores": scores.corpus, "not_run": scores.not_run, "signature": line, "images": len(captions)}
    write_json(files[2], values)
    record(*files)
    return scores


def _write_scores(path: Path, ids: Sequence[int], scores: Scores) -> None:
    """Write one line an image: ``image_id`` and the metrics that ran, fractions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {"image_id": pa.array(ids, pa.int64())}
    for name in NAMES:
        if name in scores.per_image:
            columns[name] = pa.array([scores.per_image[name][i] for i in ids], pa.float64())
    with atomic_path(path) as temporary:
        pq.write_table(pa.table(columns), temporary, write_page_checksum=True)
