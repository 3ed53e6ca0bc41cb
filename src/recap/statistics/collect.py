"""Reads the scores of a table's rows and refuses rows that cannot be compared."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from recap.core.errors import MetricError
from recap.core.hashing import parse_signature
from recap.plan.outside_rows import outside_path
from recap.plan.run import Run, row_runs
from recap.settings import OutsideRow, Row, Table
from recap.settings.metrics import server_names
from recap.settings.tables import RUN_COLUMNS
from recap.statistics.scores import Metrics, read_image_scores, read_metrics, read_number
from recap.statistics.server import ALONE, read_answer

# Fields of a signature in which comparable scores agree.
COMPARABLE = ("tok", "refs", "images", "split")
Seed = int | str
FILE = "file"  # takes the place of a seed
# Versions up to 0.1.0 finished an evaluation whose Java program had failed, and noted one of these reasons.
_FAILED = re.compile("(METEOR|SPICE) (stopped|did not finish|answered|failed|ended|gave)|no Java was found|MemoryError")


@dataclass
class RowScores:
    """The scores of the runs of one row; a file of captions has no seed, and counts as one run called `FILE`.

    Attributes:
        row: the row of the table.
        signatures: seed -> signature.
        values: column -> seed -> corpus score, or number of the training, as recorded.
        reasons: column -> why a run lacks it.
        sources: column -> who gave its scores, where that is not this program.
        images: metric -> ``[images]``, mean over the seeds, in the order of ``image_ids``.
        image_ids: sorted ids of the images scored.
    """

    row: Row | OutsideRow
    signatures: dict[Seed, str] = field(default_factory=dict)
    values: dict[str, dict[Seed, float]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    images: dict[str, np.ndarray] = field(default_factory=dict)
    image_ids: list[int] = field(default_factory=list)

    @property
    def signature(self) -> str:
        """The signature of the first seed (all seeds agree in what is compared)."""
        return next(iter(self.signatures.values()))


def collect(
    table: Table,
    seeds: Sequence[int],
    scores_root: Path,
    trainings: Mapping[str, Sequence[Path]],
    server: Mapping[str, Path],
) -> list[RowScores]:
    """Read the scores of every row.

    Args:
        table: the table.
        seeds: one run per seed and row.
        scores_root: folder above ``<dataset>/<subset>/...``.
        trainings: path of a scored run -> folders of its trainings, in their order; for columns that are no metrics.
        server: path of a scored run -> folder of what COCO's server is sent of it, and of its answer.

    Raises:
        RecapError: a file is missing or broken.
        MetricError: two runs differ in tokenizer, references, images or split, or were scored on other images.
    """
    rows = [_read_row(row, seeds, table.columns, scores_root, trainings) for row in table.rows]
    for row, scores in zip(table.rows, rows, strict=True):
        _add_answers(scores, row, seeds, table, server)
    for other in rows[1:]:
        _check_rows(rows[0], other)
    return rows


def collect_files(table: Table, name: str, scores_root: Path, like: RowScores) -> list[RowScores]:
    """Read the scores of the rows whose captions are from files; errors as of :func:`collect`.

    Args:
        table: the table.
        name: of its files.
        scores_root: folder above ``<dataset>/outside/...``.
        like: a row that they are compared with.
    """
    found = [_read_file(row, table.columns, scores_root / outside_path(table, name, row.id)) for row in table.outside]
    for scores in found:
        _check_rows(like, scores)
    return found


def _read_file(row: OutsideRow, columns: Sequence[str], folder: Path) -> RowScores:
    """Read the scores of a file of captions, which has neither a training nor an answer of a server."""
    scores, metrics = RowScores(row), read_metrics(folder)
    scores.signatures[FILE] = metrics.signature
    images = read_image_scores(folder, metrics.split)
    scores.image_ids = images.pop("image_id").tolist()
    per_image: dict[str, list[np.ndarray]] = {}
    for column in columns:
        if column in RUN_COLUMNS or column in server_names():
            scores.reasons[column] = "rows from outside have no training here, and are not sent to a server"
        else:
            _add_metric(column, FILE, metrics, images, scores, per_image, folder)
    scores.images = {column: values[0] for column, values in per_image.items()}
    return scores


def _check_rows(first: RowScores, second: RowScores) -> None:
    """Refuse rows that cannot be compared."""
    _check_comparable(first.row.id, first.signature, second.row.id, second.signature)
    if second.image_ids != first.image_ids:
        raise MetricError(f"rows {first.row.id!r} and {second.row.id!r} were scored on different image ids")


def _read_row(
    row: Row,
    seeds: Sequence[int],
    columns: Sequence[str],
    scores_root: Path,
    trainings: Mapping[str, Sequence[Path]],
) -> RowScores:
    """Read all seeds of one row."""
    scores = RowScores(row)
    per_image: dict[str, list[np.ndarray]] = {}
    for run in row_runs(row, list(seeds)):
        folder = scores_root / run.path
        metrics = read_metrics(folder)
        scores.signatures[run.seed] = metrics.signature
        _check_comparable(f"{row.id} (first seed)", scores.signature, f"{row.id} (seed {run.seed})", metrics.signature)
        images = read_image_scores(folder, metrics.split)
        ids = images.pop("image_id").tolist()
        if scores.image_ids and ids != scores.image_ids:
            raise MetricError(f"{folder}: scored on other image ids than the first seed of row {row.id!r}")
        scores.image_ids = ids
        for column in columns:
            if column in RUN_COLUMNS:
                _add_number(column, run, scores, trainings)
            elif column not in server_names():
                _add_metric(column, run.seed, metrics, images, scores, per_image, folder)
    scores.images = {column: np.mean(values, axis=0) for column, values in per_image.items()}
    return scores


def _add_number(column: str, run: Run, scores: RowScores, trainings: Mapping[str, Sequence[Path]]) -> None:
    """Add what the trainings of one run recorded, of all its stages or of the last."""
    if run.members:
        scores.reasons[column] = "an ensemble has several trainings"
        return
    if run.path not in trainings:
        raise MetricError(f"column {column!r} needs the trainings of {run.path}: `trainings` of --spec, below --runs")
    info = RUN_COLUMNS[column]
    stages = trainings[run.path] if info.all_stages else trainings[run.path][-1:]
    scores.values.setdefault(column, {})[run.seed] = sum(read_number(stage / info.file, info.key) for stage in stages)


def _add_answers(scores: RowScores, row: Row, seeds: Sequence[int], table: Table, server: Mapping[str, Path]) -> None:
    """Add what COCO's server answered, or the reason why a row has no such scores."""
    columns = [column for column in table.columns if column in server_names()]
    not_sent = table.server.not_sent.get(row.id) if table.server else None
    for run in row_runs(row, list(seeds)):
        answer = read_answer(server[run.path]) if run.path in server else not_sent or ALONE
        for column in columns:
            if isinstance(answer, str):
                scores.reasons[column] = answer
            else:
                scores.values.setdefault(column, {})[run.seed] = answer.scores[column]
                given = dict.fromkeys([*filter(None, [scores.sources.get(column)]), answer.source])
                scores.sources[column] = "; ".join(given)


def _add_metric(
    column: str,
    seed: Seed,
    metrics: Metrics,
    images: dict[str, np.ndarray],
    scores: RowScores,
    per_image: dict[str, list[np.ndarray]],
    folder: Path,
) -> None:
    """Add one metric of one run, or the reason why it is missing."""
    value = metrics.scores.get(column)
    if value is None:
        reason = metrics.not_run.get(column, "not in metrics.json")
        if _FAILED.match(reason):
            file = folder / "metrics.json"
            reason += f"; this failure is not a result: delete {file} and run the same command again"
        scores.reasons[column] = reason
        return
    if column not in images:
        raise MetricError(
            f"{folder}: metrics.json has {column} but the scores per image do not; evaluate this run again"
        )
    scores.values.setdefault(column, {})[seed] = value
    per_image.setdefault(column, []).append(images[column])


def not_comparable(first_signature: str, second_signature: str) -> str | None:
    """Return in what two signatures differ that makes scores incomparable; None: they compare."""
    one, two = parse_signature(first_signature), parse_signature(second_signature)
    found = (
        f"{key} is {one.get(key)!r} in one and {two.get(key)!r} in the other"
        for key in COMPARABLE
        if one.get(key) != two.get(key)
    )
    return next(found, None)


def _check_comparable(first: str, first_signature: str, second: str, second_signature: str) -> None:
    """Refuse two signatures that differ in what makes scores comparable."""
    reason = not_comparable(first_signature, second_signature)
    if reason:
        raise MetricError(f"{first!r} and {second!r} cannot be compared: {reason}; evaluate both the same way")
