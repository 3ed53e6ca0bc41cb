"""A flat file for comparing versions of the results with ``dvc metrics diff``: mean scores of every table row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.core.documents import write_json
from recap.statistics.scores import read_metrics


def write_summary(*, spec: dict[str, Any], scores: Path, out: Path) -> None:
    """Write ``{"<table>.<row>.<metric>": mean over seeds}`` of the scores that were computed, as fractions.

    Args:
        spec: ``{"rows": {"<table>.<row>": [run path, ...]}}``, run paths relative to ``scores``.
        scores: the folder ``results/<profile>/scores``.
        out: the JSON to write.
    """
    summary: dict[str, float] = {}
    for row, runs in spec["rows"].items():
        seeds = [read_metrics(scores / run).scores for run in runs]
        for metric in seeds[0]:
            values = [value for seed in seeds if (value := seed.get(metric)) is not None]
            # A metric that is missing for a seed has no mean; it is left out, not counted as 0.
            if len(values) == len(seeds):
                summary[f"{row}.{metric}"] = sum(values) / len(values)
    write_json(out, summary)
