"""All numbers of a result table as one JSON: means, spread,
tests against the baseline row, and rows that were chosen.

One of several rows is chosen by the scores of their validations, and a record says why; test scores
are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from recap.core.checksums import check, record
from recap.core.documents import read_json, write_json
from recap.core.errors import MetricError
from recap.core.log import log
from recap.settings import OutsideRow, Row, Table
from recap.settings.base import Strict
from recap.settings.metrics import score_info, server_names
from recap.settings.specs import SelectedRows
from recap.settings.tables import RUN_COLUMNS, Selection, column_info
from recap.statistics.comparison import (
    UNITS,
    compare_rows,
    correct,
    no_comparison,
    seeds_needed,
)
from recap.statistics.scores import NO_IMAGES, RowScores, collect, read_number

NOTES = [
    "values, mean, sd and difference are fractions of 1; sd has ddof 1; printed_percent is quoted "
    "from the paper",
    "of columns that are no metrics, values, mean and sd are as the trainings recorded them; they "
    "are not compared",
    "the paired tests compare image scores, averaged over the runs: they generalize over images, "
    "not training runs",
    "Welch's test compares corpus scores, one per run: it generalizes over training runs, not "
    "images",
    "the joint test takes images and runs as random (Clark's min F'); its p is the largest of the "
    "three",
    "a difference is marked only if all three tests are significant, so with one seed nothing is "
    "marked",
    "power: an estimate of how many seeds would mark the largest unmarked difference of one "
    "metric with 80 % power",
    "in the tests, a BLEU below 0.001 counts as 0, because pycocoevalcap writes such values in "
    "place of 0",
    "BLEU of one image is sentence-level BLEU, and BLEU and METEOR of a corpus are not means over "
    "its images: a paired difference need not equal the difference of the corpus scores",
]
RULE = (
    "the highest mean over the seeds of the best validation CIDEr-D of each training; of equal "
    "ones the first"
)


class Candidate(Strict):
    """A row that may be chosen: its scores by seed, fractions of 1, and their mean."""

    row: str
    label: str
    validation_cider_d: dict[int, float]
    mean: float


class Choice(Strict):
    """What was chosen for one line of a table, and among what."""

    id: str
    label: str
    chosen: str
    rule: str
    candidates: list[Candidate]


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
    """Compare the rows of a table with its baseline row;
    write and return the result (no NaN; None has a reason)."""
    choices = _choices(table, name, selection)
    scored = collect(table, seeds, scores_root, trainings or {}, server or {}, outside=name)
    baseline = next(scores for scores in scored if scores.row.id == table.baseline)
    rows: list[dict[str, Any]] = []
    outside: list[dict[str, Any]] = []
    for scores in scored:
        part = outside if isinstance(scores.row, OutsideRow) else rows
        part.append(_describe(scores, baseline, table))
    family = _correct(rows, outside, seeds)
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
        "images": len(baseline.image_ids),
        "family": family,
        "notes": NOTES,
        "quoted": [row.model_dump() for row in table.quoted],
        "not_run": [row.model_dump() for row in table.not_run],
        "rows": rows,
    }
    # Only where there are any, so that the statistics of other tables are unchanged.
    if outside:
        result["outside"] = outside
    if choices:
        result["selected"] = [_selected(choice, rows) for choice in choices]
    write_json(statistics_out, result)
    record(statistics_out)
    why = "; one seed allows no mark" if family["units"] == ["images"] else ""
    share = f"{family['marked']} of {family['made']} differences"
    log.info(f"statistics {name}: {share} to the baseline row are marked{why}")
    return result


def _choices(table: Table, name: str, selection: Path | None) -> list[Choice]:
    """Return the choices that a table shows, from their record."""
    choices = read_selections(selection) if selection else []
    if [each.id for each in choices] != [each.id for each in table.selections]:
        raise MetricError(
            f"table {name!r} chooses rows on validation; give the record of its selection"
        )
    return choices


def _describe(scores: RowScores, baseline: RowScores, table: Table) -> dict[str, Any]:
    """Return one row of the result."""
    row = scores.row
    described: dict[str, Any] = {"id": row.id, "label": row.label}
    for part in ("dataset", "subset", "features", "model", "recipe", "stage"):
        described[part] = getattr(row, part, None)
    if isinstance(row, OutsideRow):
        # It has no training: its captions are from a file, or by released weights.
        described["captions"] = row.source
        if row.released:
            described["released"] = True
    described["as_printed"] = isinstance(row, Row) and row.as_printed
    described["printed_p"] = row.printed_p
    if row.p_fits:
        described["p_fits"] = row.p_fits
    return described | {
        "doubt": row.doubt,
        "note": getattr(row, "note", ""),
        "signatures": {str(seed): text for seed, text in scores.signatures.items()},
        "cells": {column: _cell(scores, baseline, column) for column in table.columns},
    }


def _cell(scores: RowScores, baseline: RowScores, column: str) -> dict[str, Any]:
    """Return one column of one row; of what is no metric there is no comparison."""
    row, values, number = scores.row, scores.values.get(column, {}), RUN_COLUMNS.get(column)
    mean = fmean(values.values()) if values else None
    has_spread = len(values) > 1 and (number is None or number.spread)
    source = "; ".join(scores.sources) if column in server_names() else ""
    compared = scores is not baseline and number is None
    return {
        "values": {str(seed): value for seed, value in values.items()},
        "mean": mean,
        "sd": stdev(values.values()) if has_spread else None,
        "n": len(values),
        "reason": scores.reasons.get(column),
        "source": source or None,
        "printed_percent": row.printed.get(column),
        "printed_sd_percent": row.printed_sd.get(column) if isinstance(row, Row) else None,
        "difference_to_printed_percent": _difference_to_printed(row, column, mean),
        "comparison": _comparison(scores, baseline, column) if compared else None,
    }


def _difference_to_printed(row: Row | OutsideRow, column: str, mean: float | None) -> float | None:
    """Return the difference in percent, of a row with the settings of the print."""
    printed = row.printed.get(column)
    if not isinstance(row, Row) or not row.as_printed or printed is None or mean is None:
        return None
    return column_info(column).scale * mean - printed


def _comparison(scores: RowScores, baseline: RowScores, column: str) -> dict[str, Any]:
    """Return the tests of one row against the baseline row."""
    for side in (scores, baseline):
        if not side.values.get(column):
            return no_comparison(f"row {side.row.id!r} has no {column}: {side.reasons.get(column)}")
    if column not in scores.images:
        runs, baseline_runs = scores.values[column].values(), baseline.values[column].values()
        return no_comparison(NO_IMAGES, fmean(runs) - fmean(baseline_runs))
    better = score_info(column).higher_is_better
    return compare_rows(
        column, baseline.sample(column), scores.sample(column), higher_is_better=better
    )


def _correct(
    rows: list[dict[str, Any]], outside: list[dict[str, Any]], seeds: Sequence[int]
) -> dict[str, Any]:
    """Correct and mark the comparisons of all rows, and describe the family.

    A file of captions is never marked.
    """
    family = []
    for row in [*rows, *outside]:
        for cell in row["cells"].values():
            if cell["comparison"] is not None and cell["comparison"]["paired"] is not None:
                family.append(cell["comparison"])
    tests = correct(family)
    return {
        "correction": "Holm",
        "over": "all comparisons of this table with its baseline row, rows times columns",
        "tests": tests,
        # The tests that have a p: one seed allows none over training runs.
        "units": list(UNITS) if len(seeds) > 1 else ["images"],
        "made": len(family),
        "marked": sum(comparison["mark"] != 0 for comparison in family),
        "power": seeds_needed(rows, comparisons=len(family)),
    }


def _selected(choice: Choice, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the line of a choice: the chosen row,
    under the line's name and without printed numbers; no new test."""
    row = next(each for each in rows if each["id"] == choice.chosen)
    printed = {
        "printed_percent": None,
        "printed_sd_percent": None,
        "difference_to_printed_percent": None,
    }
    cells = {column: {**cell, **printed} for column, cell in row["cells"].items()}
    chosen = next(each.label for each in choice.candidates if each.row == choice.chosen)
    own = {
        "id": choice.id,
        "label": f"{choice.label}: {chosen}",
        "note": choice.rule,
        "printed_p": {},
        "doubt": {},
        "cells": cells,
    }
    return {**row, **own, "choice": choice.model_dump(mode="json")}


def choose(
    selection: Selection, labels: Mapping[str, str], scores: Mapping[str, Mapping[int, float]]
) -> Choice:
    """Return the choice among rows: id -> seed -> best validation CIDEr-D."""
    candidates = [
        Candidate(
            row=row,
            label=labels[row],
            validation_cider_d=dict(scores[row]),
            mean=fmean(scores[row].values()),
        )
        for row in selection.over
    ]
    best = max(candidates, key=lambda each: each.mean)  # the first of equal ones
    return Choice(
        id=selection.id, label=selection.label, chosen=best.row, rule=RULE, candidates=candidates
    )


def write_selections(spec: SelectedRows, *, runs: Path, out: Path) -> list[Choice]:
    """Choose for each line of a table by the trainings below ``runs``; write the record ``out``."""
    scores: dict[str, dict[int, float]] = {}
    for row, by_seed in spec.trainings.items():
        scores[row] = {}
        for seed, path in by_seed.items():
            scores[row][seed] = read_number(runs / path / "training.json", "best_val_cider_d")
    choices = [choose(selection, spec.labels, scores) for selection in spec.selections]
    write_json(out, [choice.model_dump(mode="json") for choice in choices])
    record(out)
    for choice in choices:
        means = ", ".join(f"{each.row} {100 * each.mean:.1f}" for each in choice.candidates)
        log.info(f"{choice.id}: {choice.chosen} of {means} (validation CIDEr-D)")
    return choices


def read_selections(path: Path) -> list[Choice]:
    """Return the choices of a record."""
    check(path)
    return read_json(path, list[Choice])
