"""Small flat files for comparing versions of the results: mean scores of every table row, and learning curves.

``dvc metrics diff`` reads the first, ``dvc plots show`` the second.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from recap.core.atomic import write_json, write_text
from recap.core.checksums import check
from recap.core.errors import RecapError
from recap.statistics.scores import read_metrics

CURVE_COLUMNS = ("run", "stage", "epoch", "loss", "val_cider_d")


def write_summary(*, spec: dict[str, Any], scores: Path, out: Path) -> None:
    """Write ``{"<table>.<row>.<metric>": mean over seeds}`` of the scores that were computed, as fractions.

    Args:
        spec: ``{"rows": {"<table>.<row>": [run path, ...]}}``, run paths relative to ``scores``.
        scores: the folder ``results/<profile>/scores``.
        out: the JSON to write.

    Raises:
        RecapError: a ``metrics.json`` is missing or broken.
    """
    summary: dict[str, float] = {}
    for row, runs in spec["rows"].items():
        seeds = [read_metrics(scores / run)["scores"] for run in runs]
        for metric in seeds[0]:
            values = [seed.get(metric) for seed in seeds]
            # A metric that could not run for some seed has no mean; it is left out, never counted as 0.
            if all(value is not None for value in values):
                summary[f"{row}.{metric}"] = sum(values) / len(values)
    write_json(out, summary)


def write_curves(*, spec: dict[str, Any], runs: Path, out: Path) -> None:
    """Write the learning curves of all runs below each other: run, stage, epoch, loss, validation CIDEr-D.

    Args:
        spec: ``{"runs": {"<name>": run path up to the seed's stage}}``, paths relative to ``runs``.
        runs: the folder ``results/<profile>/runs``.
        out: the CSV to write.

    Raises:
        RecapError: a ``history.csv`` is missing or lacks a column.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CURVE_COLUMNS)
    for name, run in spec["runs"].items():
        for line in _history(runs / run / "history.csv"):
            writer.writerow([name, Path(run).name, line["epoch"], line["loss"], line["val_cider_d"]])
    write_text(out, text.getvalue())


def _history(path: Path) -> list[dict[str, str]]:
    """Read a history; a missing file or column is an error that names it."""
    check(path)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            lines = list(reader)
            columns = reader.fieldnames or []
    except FileNotFoundError as error:
        raise RecapError(f"{path}: no such file; train this run first") from error
    missing = [column for column in CURVE_COLUMNS[2:] if column not in columns]
    if missing:
        raise RecapError(f"{path}: the column {missing[0]!r} is missing; delete the file and train this run again")
    return lines
