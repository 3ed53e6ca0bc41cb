"""All numbers of a result table as one JSON: means, spread,
tests against the baseline row, and rows that were chosen.

One of several rows is chosen by the scores of their validations, and a record says why; test scores
are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import TypeVar

from recap.core.checksums import check, record
from recap.core.documents import adapter, read_json, write_json
from recap.core.log import log
from recap.settings import OutsideRow, Row, Table
from recap.settings.metrics import server_names
from recap.settings.specs import SelectedRows
from recap.settings.tables import RUN_COLUMNS, Selection, column_info
from recap.statistics.comparison import UNITS, compare_rows, correct, count_tests, seeds_needed
from recap.statistics.results import (
    Candidate,
    CellResult,
    Choice,
    Comparison,
    Family,
    NoComparison,
    Pair,
    RowResult,
    TableResult,
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


Key = TypeVar("Key", bound=tuple[str, ...])
# id of a row, column -> its tests against the baseline row
Comparisons = Mapping[tuple[str, str], Comparison | NoComparison]


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
) -> TableResult:
    """Compare the rows of a table with its baseline row; write and return the result."""
    choices = read_selections(selection) if selection else []
    scored = collect(table, seeds, scores_root, trainings or {}, server or {}, outside=name)
    baseline = next(scores for scores in scored if scores.row.id == table.baseline)
    comparisons = _comparisons(scored, baseline, table.columns)
    tested = [each for each in comparisons.values() if isinstance(each, Comparison)]
    rows: list[RowResult] = []
    outside: list[RowResult] = []
    for scores in scored:
        part = outside if isinstance(scores.row, OutsideRow) else rows
        part.append(_row_result(scores, table.columns, comparisons))
    result = replace(
        TableResult.of(table, name, seeds, rows),
        images=len(baseline.image_ids),
        family=Family(
            made=len(tested),
            marked=sum(each.mark != 0 for each in tested),
            # The tests that have a p: one seed allows none over training runs.
            units=list(UNITS) if len(seeds) > 1 else ["images"],
            tests=count_tests(tested),
            power=seeds_needed(rows, comparisons=len(tested)),
        ),
        notes=NOTES,
        outside=outside,
        selected=[_selected(choice, rows) for choice in choices],
        pairs=_pairs([each for each in scored if isinstance(each.row, Row)], table.pairs),
    )
    write_json(statistics_out, adapter(TableResult).dump_python(result, mode="json"))
    record(statistics_out)
    why = "; one seed allows no mark" if len(seeds) == 1 else ""
    share = f"{result.family.marked} of {result.family.made} differences"
    log.info(f"statistics {name}: {share} to the baseline row are marked{why}")
    return result


def _comparisons(
    scored: Sequence[RowScores], baseline: RowScores, columns: Sequence[str]
) -> Comparisons:
    """Return the comparisons of all rows with the baseline row, corrected and marked."""
    made = {}
    for scores in scored:
        for column in columns:
            if scores is not baseline and column not in RUN_COLUMNS:
                made[scores.row.id, column] = _comparison(scores, baseline, column)
    return _corrected(made)


def _corrected(
    made: Mapping[Key, Comparison | NoComparison],
) -> dict[Key, Comparison | NoComparison]:
    """Return comparisons as one family: corrected and marked."""
    tested = {key: each for key, each in made.items() if isinstance(each, Comparison)}
    return {**made, **dict(zip(tested, correct(list(tested.values())), strict=True))}


def _pairs(scored: Sequence[RowScores], metrics: Sequence[str]) -> list[Pair]:
    """Return the comparisons of all pairs of rows on some metrics, corrected and marked."""
    made = {}
    for metric in metrics:
        for first, second in combinations(scored, 2):
            made[metric, first.row.id, second.row.id] = _comparison(second, first, metric)
    return [Pair(*names, comparison) for names, comparison in _corrected(made).items()]


def _comparison(scores: RowScores, baseline: RowScores, column: str) -> Comparison | NoComparison:
    """Return the tests of one row against the baseline row."""
    for side in (scores, baseline):
        if not side.values.get(column):
            return NoComparison(f"row {side.row.id!r} has no {column}: {side.reasons.get(column)}")
    if column not in scores.images:
        means = [fmean(side.values[column].values()) for side in (scores, baseline)]
        return NoComparison(NO_IMAGES, means[0] - means[1])
    return compare_rows(column, baseline.sample(column), scores.sample(column))


def _row_result(scores: RowScores, columns: Sequence[str], comparisons: Comparisons) -> RowResult:
    cells = {}
    for column in columns:
        cells[column] = _cell(scores, column, comparisons.get((scores.row.id, column)))
    signatures = {str(seed): text for seed, text in scores.signatures.items()}
    return replace(RowResult.of(scores.row, cells), signatures=signatures)


def _cell(
    scores: RowScores, column: str, comparison: Comparison | NoComparison | None
) -> CellResult:
    """Return one column of one row."""
    row = scores.row
    values = scores.values.get(column, {})
    mean = fmean(values.values()) if values else None
    number = RUN_COLUMNS.get(column)
    has_spread = len(values) > 1 and (number is None or number.spread)
    printed = row.printed.get(column)
    difference = None
    if isinstance(row, Row) and row.as_printed and printed is not None and mean is not None:
        difference = column_info(column).scale * mean - printed
    return CellResult(
        values={str(seed): value for seed, value in values.items()},
        mean=mean,
        sd=stdev(values.values()) if has_spread else None,
        n=len(values),
        reason=scores.reasons.get(column),
        source="; ".join(scores.sources) or None if column in server_names() else None,
        printed_percent=printed,
        printed_sd_percent=row.printed_sd.get(column) if isinstance(row, Row) else None,
        difference_to_printed_percent=difference,
        comparison=comparison,
    )


def _selected(choice: Choice, rows: Sequence[RowResult]) -> RowResult:
    """Return the line of a choice: the chosen row,
    under the line's name and without printed numbers; no new test."""
    row = next(each for each in rows if each.id == choice.chosen)
    cells = {}
    for column, cell in row.cells.items():
        cells[column] = replace(
            cell,
            printed_percent=None,
            printed_sd_percent=None,
            difference_to_printed_percent=None,
        )
    return replace(
        row,
        id=choice.id,
        label=f"{choice.label}: {row.label}",
        note=choice.rule,
        printed_p={},
        doubt={},
        cells=cells,
        choice=choice,
    )


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
    write_json(out, adapter(list[Choice]).dump_python(choices, mode="json"))
    record(out)
    for choice in choices:
        means = ", ".join(f"{each.row} {100 * each.mean:.1f}" for each in choice.candidates)
        log.info(f"{choice.id}: {choice.chosen} of {means} (validation CIDEr-D)")
    return choices


def read_selections(path: Path) -> list[Choice]:
    """Return the choices of a record."""
    check(path)
    return read_json(path, list[Choice])
