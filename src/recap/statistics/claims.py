"""Judges the claims of a paper from the scores of the runs that are finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from recap.core.errors import ConfigError, counted, nearest
from recap.plan.run import row_runs
from recap.settings import Table
from recap.settings.claims import Check, Claim
from recap.settings.metrics import score_info, server_names
from recap.settings.specs import ComparedTable, PrintedTable
from recap.settings.tables import STAGE_NAMES, column_info
from recap.statistics.claim_tests import (
    FAILS,
    HOLDS,
    NO_PROGRAM,
    NOT_RUN,
    UNTOLD,
    Compared,
    Judged,
    judge,
    verdict_of,
)
from recap.statistics.collect import RowScores, collect
from recap.statistics.comparison import compare_rows
from recap.statistics.server import NO_IMAGES

_SAME = 1e-6  # corpus scores and means of image scores that differ by less are the same number
_OTHER_DATA = "scores on other data or of other settings cannot be compared with a printed number"


@dataclass(frozen=True)
class Verdict:
    """What became of a claim: the verdict, why, and the comparisons behind it."""

    claim: Claim
    verdict: str
    why: str
    judged: tuple[Judged, ...] = ()


def judge_claims(
    claims: Sequence[Claim],
    tables: Mapping[str, ComparedTable],
    scores: Path,
    printed: Mapping[str, PrintedTable] | None = None,
) -> list[Verdict]:
    """Judge claims by the rule of a table's marks, each with Holm's correction over its own comparisons.

    Args:
        claims: of one paper or several.
        tables: name -> table of one scale with the seeds of its runs; tables that are not made there are missing.
        scores: folder above ``<dataset>/<subset>/...``, which may lack runs.
        printed: name of a table in whose place another may be read -> what the paper prints in it.

    Raises:
        ConfigError: a claim names a row or a column that its table does not have.
        RecapError: scores are damaged or cannot be compared.
    """
    return [_verdict(claim, tables, scores, printed or {}) for claim in claims]


def _verdict(
    claim: Claim, tables: Mapping[str, ComparedTable], scores: Path, printed: Mapping[str, PrintedTable]
) -> Verdict:
    if claim.not_for_a_program:
        return Verdict(claim, NO_PROGRAM, claim.not_for_a_program)
    if claim.settled:
        return Verdict(claim, HOLDS if claim.settled.holds else FAILS, claim.settled.why)
    found = [each for check in claim.checks for each in _compare(claim, check, tables, scores, printed)]
    judged = judge([each for each in found if isinstance(each, Compared)])
    judged += [each for each in found if isinstance(each, Judged)]
    made = [each for each in judged if each.planned] or judged
    verdict = verdict_of(made)
    alike = [each for each in made if each.verdict == verdict]
    counts = [f"{len(alike)} of {len(made)} comparisons"] if len(made) > 1 else []
    counts += [f"{counted(left, 'comparison')} not made at this scale"] if (left := len(judged) - len(made)) else []
    reasons = dict.fromkeys(each.why for each in alike if each.why)
    stages = dict.fromkeys(_other_stage(each, tables, printed) for each in made)
    return Verdict(claim, verdict, "; ".join(filter(None, [*stages, *counts, *reasons])), tuple(judged))


def _other_stage(judged: Judged, tables: Mapping[str, ComparedTable], printed: Mapping[str, PrintedTable]) -> str:
    """Return that scores are of another stage than the printed ones, where they are."""
    read, there = tables.get(judged.table), printed.get(judged.check.table)
    stage = next((row.stage for row in read.table.rows if row.id == judged.check.row), None) if read else None
    if stage is None or there is None or stage == there.stage:
        return ""
    return f"after {STAGE_NAMES[stage]}, printed after {STAGE_NAMES[there.stage]}"


def _table_read(check: Check, tables: Mapping[str, ComparedTable]) -> str:
    """Return the table that a check is decided by: its own where that allows a verdict, or the one in its place."""
    own, other = tables.get(check.table), check.in_place
    if other is None or other not in tables:
        return check.table
    return check.table if own and len(own.seeds) >= min(2, len(tables[other].seeds)) else other


def _compare(
    claim: Claim,
    check: Check,
    tables: Mapping[str, ComparedTable],
    scores: Path,
    printed: Mapping[str, PrintedTable],
) -> list[Judged | Compared]:
    """Return the comparisons of a check, or why there are none."""
    name = _table_read(check, tables)
    opponents = check.rows or [check.quoted or f"{check.printed:g}"]

    def without(verdict: str, why: str, others: Sequence[str] = opponents, *, planned: bool = True) -> list[Judged]:
        return [
            Judged(check, name, metric, other, verdict=verdict, why=why, planned=planned)
            for metric in check.metrics
            for other in others
        ]

    if name not in tables:
        return [*without(NOT_RUN, "its table is not made at this scale", planned=False)]
    table, seeds = tables[name].table, tables[name].seeds
    _check_names(claim, check, table, name)
    rows = [row for row in table.rows if row.id in {check.row, *check.rows}]
    ids = {row.id for row in rows}
    lacking = [other for other in check.rows if other not in ids]
    if check.row not in ids or (lacking and lacking == check.rows):
        return [*without(NOT_RUN, _not_here(check.row if check.row not in ids else lacking[0]), planned=False)]
    if all(metric in server_names() for metric in check.metrics):
        return [*without(UNTOLD, NO_IMAGES)]
    if not check.rows and not all(row.as_printed for row in rows):
        return [*without(UNTOLD, _OTHER_DATA)]
    left_out = [each for row in lacking for each in without(NOT_RUN, _not_here(row), [row], planned=False)]
    opponents = [other for other in opponents if other not in lacking]
    runs = [run for row in rows for run in row_runs(row, seeds)]
    done = sum((scores / run.path / "metrics.json").exists() for run in runs)
    if done < len(runs):
        return [*without(NOT_RUN, f"{done} of {len(runs)} runs of {name}", opponents), *left_out]
    part = table.model_copy(update={"rows": rows, "columns": list(check.metrics), "server": None})
    found = {each.row.id: each for each in collect(part, seeds, scores, {}, {})}
    shown = {row.id: row.printed for row in table.rows} | {row.id: row.printed for row in table.quoted}
    numbers = printed[check.table].rows if check.table in printed else shown
    made = [
        _compared(check, name, metric, other, found, table, numbers) for metric in check.metrics for other in opponents
    ]
    return [*made, *left_out]


def _not_here(row: str) -> str:
    return f"row {row} is not run at this scale"


def _check_names(claim: Claim, check: Check, table: Table, name: str) -> None:
    """Refuse a claim about a row or a column that its table does not have at any scale.

    A table in place of another may lack some of the rows that a row is compared with.
    """
    ids = [row.id for row in table.rows] + [row.id for row in (*table.quoted, *table.not_run)]
    others = check.rows if name == check.table else []
    for row in filter(None, [check.row, *others, check.quoted]):
        if row not in ids:
            raise ConfigError(f"claim {claim.id}: table {name} has no row {row!r}; {nearest(row, ids)}")
    for metric in check.metrics:
        if metric not in table.columns:
            raise ConfigError(
                f"claim {claim.id}: table {name} has no column {metric!r}; {nearest(metric, table.columns)}"
            )


def _compared(
    check: Check,
    name: str,
    metric: str,
    other: str,
    found: Mapping[str, RowScores],
    table: Table,
    numbers: Mapping[str, Mapping[str, float]],
) -> Judged | Compared:
    """Return the tests of one metric against one row, or against a printed number as if every image and run had it.

    The printed size of the difference is from ``numbers``, row -> metric -> printed number of the claim's own table.
    """
    own, scale = found[check.row], column_info(metric).scale
    quoted = {row.id: row for row in table.quoted}
    label = found[other].row.label if other in found else quoted[other].label if other in quoted else other
    judged = Judged(check, name, metric, label, printed=_printed(check, metric, other, numbers))
    sides = [own] if other not in found else [found[other], own]
    missing = next((side for side in sides if not side.values.get(metric)), None)
    if missing:
        return Judged(check, name, metric, label, why=f"{metric}: {missing.reasons.get(metric)}")
    runs, images = list(own.values[metric].values()), own.images[metric].tolist()
    if other in found:
        base_runs, base_images = list(found[other].values[metric].values()), found[other].images[metric].tolist()
    else:
        number = check.printed if check.printed is not None else quoted[other].printed.get(metric)
        if number is None:
            return Judged(check, name, metric, label, why=f"{metric} of {label} is not printed")
        if abs(fmean(images) - fmean(runs)) > _SAME:
            return Judged(check, name, metric, label, why=f"{metric} of a corpus is no mean over its images")
        base_runs, base_images = [number / scale] * 2, [number / scale] * len(images)
    tests = compare_rows(
        metric,
        baseline_images=base_images,
        images=images,
        baseline_runs=base_runs,
        runs=runs,
        higher_is_better=score_info(metric).higher_is_better,
    )
    return Compared(judged, tests, [base_runs, runs], scale)


def _printed(check: Check, metric: str, other: str, numbers: Mapping[str, Mapping[str, float]]) -> float | None:
    """Return the printed size of a difference, with its sign."""
    if check.size is not None:
        return -check.size if check.sign == "lower" else check.size
    ours, theirs = (numbers.get(row, {}).get(metric) for row in (check.row, other))
    if check.printed is not None or ours is None or theirs is None:
        return None
    return round(ours - theirs, 6)
