"""All numbers of a result table as one JSON: means, spread, tests against the baseline row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from recap.core.checksums import record
from recap.core.documents import write_json
from recap.core.errors import MetricError
from recap.core.log import log
from recap.settings import OutsideRow, Row, Table
from recap.settings.metrics import score_info
from recap.settings.tables import RUN_COLUMNS, column_info
from recap.statistics.collect import RowScores, collect, collect_files
from recap.statistics.comparison import UNITS, compare_rows, correct, no_comparison
from recap.statistics.power import add_seeds_for_printed, seeds_needed
from recap.statistics.selection import Choice, read_selections
from recap.statistics.server import NO_IMAGES

NOTES = [
    "values, mean, sd and difference are fractions of 1; sd has ddof 1; printed_percent is quoted from the paper",
    "of columns that are no metrics, values, mean and sd are as the trainings recorded them; they are not compared",
    "the paired tests compare image scores, averaged over the runs: they generalize over images, not training runs",
    "Welch's test compares corpus scores, one per run: it generalizes over training runs, not images",
    "the joint test takes images and runs as random (Clark's min F'); its p is the largest of the three",
    "a difference is marked only if all three tests are significant, so with one seed nothing is marked",
    "power: an estimate of how many seeds would mark the largest unmarked difference of one metric with 80 % power",
    "seeds_for_printed: the same estimate for a difference as large as the printed one, of every comparison",
    "in the tests, a BLEU below 0.001 counts as 0, because pycocoevalcap writes such values in place of 0",
    "BLEU of one image is sentence-level BLEU, and BLEU and METEOR of a corpus are not means over its images: "
    "a paired difference need not equal the difference of the corpus scores",
]
_FAMILY = "all comparisons of this table with its baseline row, rows times columns"


def compare_table(
    *,
    table: Table,
    name: str,
    seeds: Sequence[int],
    scores_root: Path,
    statistics_out: Path,
    trainings: Mapping[str, Sequence[Path]] | None = None,
    server: Mapping[str, Path] | None = None,
    selection: Path | None = None,
) -> dict[str, Any]:
    """Compare the rows of a table with its baseline row and write the result as JSON (no NaN; None has a reason).

    Args:
        table: the table.
        name: its id.
        seeds: one run per seed and row.
        scores_root: folder above ``<dataset>/<subset>/...`` with ``metrics.json`` and ``scores.<split>.parquet``.
        statistics_out: file to write.
        trainings: path of a scored run -> folders of its trainings, in their order; for columns that are no metrics.
        server: path of a scored run -> folder of what COCO's server is sent of it, and of its answer.
        selection: what `recap select` wrote, for a table with `selections`.

    Returns:
        What was written.

    Raises:
        MetricError: rows that cannot be compared, or scores that are missing.
    """
    if table.selections and selection is None:
        raise MetricError(f"table {name!r} chooses rows on validation; give the record of `recap select`")
    choices = read_selections(selection, table.selections) if selection else []
    if not seeds:
        raise MetricError(f"table {name!r} has no seeds; give at least one in the profile")
    rows = collect(table, seeds, scores_root, trainings or {}, server or {})
    baseline = next(scores for scores in rows if scores.row.id == table.baseline)
    files = collect_files(table, name, scores_root, baseline)
    described = [_describe(scores, baseline, table) for scores in rows]
    outside = [_describe(scores, baseline, table) for scores in files]
    family = _correct(described, outside, seeds)
    add_seeds_for_printed(described, baseline=table.baseline, comparisons=family["made"])
    selected = [_selected(choice, described) for choice in choices]
    result = {
        "table": name,
        "title": table.title,
        "scale": table.scale,
        "short_scale": table.short_scale,
        "printed_on": table.printed_on,
        **({"doubts": table.doubts} if table.doubts else {}),
        "baseline": table.baseline,
        "columns": list(table.columns),
        "seeds": list(seeds),
        "images": len(rows[0].image_ids),
        "family": family,
        "notes": NOTES,
        "quoted": [row.model_dump() for row in table.quoted],
        "not_run": [row.model_dump() for row in table.not_run],
        "rows": described,
        # Only where there are any, so that the statistics of other tables are unchanged.
        **({"outside": outside} if outside else {}),
        **({"selected": selected} if selected else {}),
    }
    write_json(statistics_out, result)
    record(statistics_out)
    why = "; one seed allows no mark" if family["units"] == ["images"] else ""
    log.info(
        f"statistics {name}: {family['marked']} of {family['made']} differences to the baseline row are marked{why}"
    )
    return result


def _selected(choice: Choice, described: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the line of a choice: the row that was chosen, under the line's name and without what is printed there.

    It is no comparison of its own, so the family of tests does not grow by it.
    """
    row = next(each for each in described if each["id"] == choice.chosen)
    printed = {"printed_percent": None, "printed_sd_percent": None, "difference_to_printed_percent": None}
    cells = {column: {**cell, **printed} for column, cell in row["cells"].items()}
    own = {"id": choice.id, "label": choice.shown, "note": choice.rule, "printed_p": {}, "doubt": {}, "cells": cells}
    return {**row, **own, "choice": choice.model_dump(mode="json")}


def _describe(scores: RowScores, baseline: RowScores, table: Table) -> dict[str, Any]:
    """Return one row of the result."""
    row = scores.row
    parts = ("dataset", "subset", "features", "model", "recipe", "stage")
    return {
        "id": row.id,
        "label": row.label,
        **{part: getattr(row, part, None) for part in parts},
        **(_origin(row) if isinstance(row, OutsideRow) else {}),
        "as_printed": _is_as_printed(row),
        "printed_p": row.printed_p,
        **({"p_fits": row.p_fits} if row.p_fits else {}),
        "doubt": row.doubt,
        "note": getattr(row, "note", ""),
        "signatures": {str(seed): text for seed, text in scores.signatures.items()},
        "cells": {column: _cell(scores, baseline, column) for column in table.columns},
    }


def _origin(row: OutsideRow) -> dict[str, Any]:
    """Return where the captions of a row without a training are from: a file, or released weights."""
    return {"captions": row.source, **({"released": True} if row.released else {})}


def _cell(scores: RowScores, baseline: RowScores, column: str) -> dict[str, Any]:
    """Return one column of one row; of what is no metric there is no comparison."""
    values = scores.values.get(column, {})
    mean = fmean(values.values()) if values else None
    number = RUN_COLUMNS.get(column)
    spread = len(values) > 1 and (number is None or number.spread)
    return {
        "values": {str(seed): value for seed, value in values.items()},
        "mean": mean,
        "sd": stdev(values.values()) if spread else None,
        "n": len(values),
        "reason": scores.reasons.get(column),
        "source": scores.sources.get(column),
        **_against_paper(scores.row, column, mean),
        "comparison": None if scores is baseline or number else _comparison(scores, baseline, column),
    }


def _is_as_printed(row: Row | OutsideRow) -> bool:
    return isinstance(row, Row) and row.as_printed


def _against_paper(row: Row | OutsideRow, column: str, mean: float | None) -> dict[str, Any]:
    """Return the printed value, and of a row with the settings of the print the difference to it (percent)."""
    printed = row.printed.get(column)
    difference = None
    if _is_as_printed(row) and printed is not None and mean is not None:
        difference = column_info(column).scale * mean - printed
    return {
        "printed_percent": printed,
        "printed_sd_percent": row.printed_sd.get(column) if isinstance(row, Row) else None,
        "difference_to_printed_percent": difference,
    }


def _comparison(scores: RowScores, baseline: RowScores, column: str) -> dict[str, Any]:
    """Return the tests of one row against the baseline row."""
    ours, theirs = scores.values.get(column, {}), baseline.values.get(column, {})
    if not ours or not theirs:
        missing = scores if not ours else baseline
        reason = f"row {missing.row.id!r} has no {column}: {missing.reasons.get(column)}"
        return no_comparison(reason)
    if column not in scores.images:
        return no_comparison(NO_IMAGES, fmean(ours.values()) - fmean(theirs.values()))
    return compare_rows(
        column,
        baseline_images=baseline.images[column].tolist(),
        images=scores.images[column].tolist(),
        baseline_runs=list(theirs.values()),
        runs=list(ours.values()),
        higher_is_better=score_info(column).higher_is_better,
    )


def _correct(rows: list[dict[str, Any]], outside: list[dict[str, Any]], seeds: Sequence[int]) -> dict[str, Any]:
    """Correct and mark the comparisons of all rows, those from outside too, and describe the family.

    A file of captions has no test over runs, so it is never marked, nor does it say how many seeds are needed.
    """
    comparisons = [cell["comparison"] for row in [*rows, *outside] for cell in row["cells"].values()]
    made = [comparison for comparison in comparisons if comparison is not None and comparison["paired"] is not None]
    tests = correct(made)
    return {
        "correction": "Holm",
        "over": _FAMILY,
        "tests": tests,
        # The tests that have a p: one seed allows none over training runs.
        "units": list(UNITS) if len(seeds) > 1 else ["images"],
        "made": len(made),
        "marked": sum(comparison["mark"] != 0 for comparison in made),
        "power": seeds_needed(rows, comparisons=len(made)),
    }
