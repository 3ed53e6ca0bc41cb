"""Scores the captions of one run and writes captions, scores per image, and metrics with their signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recap.core.checksums import record
from recap.core.documents import write_json
from recap.core.errors import MetricError
from recap.core.files import atomic_path
from recap.metrics.sanitize import sanitize
from recap.metrics.scores import Scores, score
from recap.metrics.signature import reference_range, signature

if TYPE_CHECKING:
    from PIL.Image import Image


def evaluate_captions(
    *,
    references: Mapping[int, Sequence[str]],
    hypotheses: Mapping[int, str],
    metrics: Sequence[str],
    split: str,
    split_hash: str,
    decoding: Any,
    out: Path,
    pictures: Callable[[int], Image] | None = None,
    dataset: Path | None = None,
    timeout_seconds: float = 600,
) -> Scores:
    """Score captions and write ``captions.<split>.json``, ``scores.<split>.parquet`` and ``metrics.json`` into ``out``.

    Args:
        references: image id -> raw reference captions.
        hypotheses: image id -> raw generated caption.
        metrics: which metrics to run, of `recap.settings.metrics.METRICS`.
        split, split_hash: name of the split, and the corpus's hash of which image is in which.
        decoding: how the captions were searched, `DecodingSettings`, or which file they are from, `OutsideCaptions`.
        out: folder for the three files; ``metrics.json`` is written last. Scores from outside are looked for here, too.
        pictures: returns the picture of an image id, for metrics that need pictures.
        dataset: folder of the corpus, for metrics that read what lies beside it.
        timeout_seconds: time limit of each Java program.

    Raises:
        MetricError: as :func:`recap.metrics.scores.score`, or a metric failed that may run when tried again; then no
            file is written.
    """
    refs = {int(image_id): list(captions) for image_id, captions in references.items()}
    captions = {int(image_id): sanitize(caption) for image_id, caption in sorted(hypotheses.items())}
    scores = score(
        refs,
        captions,
        metrics=metrics,
        timeout_seconds=timeout_seconds,
        pictures=pictures,
        folder=out,
        split=split,
        dataset=dataset,
    )
    if scores.failed:
        raise MetricError(
            f"{out}: {'; '.join(scores.failed.values())}; no score was written: see to Java, memory and time and "
            f"repeat the command, or leave {' and '.join(scores.failed)} out of the metrics"
        )
    line = signature(
        tokenizer=scores.tokenizer,
        versions=scores.versions,
        references=reference_range(refs),
        images=len(captions),
        split=split,
        split_hash=split_hash,
        decoding=decoding,
    )
    files = [out / name for name in (f"captions.{split}.json", f"scores.{split}.parquet", "metrics.json")]
    write_json(files[0], [{"image_id": i, "caption": text} for i, text in captions.items()])
    _write_scores(files[1], list(captions), scores)
    values = {"scores": scores.corpus, "not_run": scores.not_run, "signature": line, "images": len(captions)}
    write_json(files[2], {**values, "split": split, "decoding": decoding.model_dump(mode="json")})
    record(*files)
    return scores


def _write_scores(path: Path, ids: Sequence[int], scores: Scores) -> None:
    """Write one line per image: ``image_id`` and the metrics that ran, before the scale of tables."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {"image_id": pa.array(ids, pa.int64())}
    for name, values in scores.per_image.items():
        columns[name] = pa.array([values[image_id] for image_id in ids], pa.float64())
    with atomic_path(path) as temporary:
        pq.write_table(pa.table(columns), temporary, write_page_checksum=True)
