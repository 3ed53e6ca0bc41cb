"""Judges a paper's claims from the scores of finished runs, by the rule of a table's marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from recap.core.errors import counted
from recap.plan.run import row_runs
from recap.settings import Table
from recap.settings.metrics import score_info, server_names
from recap.settings.specs import JudgedClaims
from recap.settings.tables import STAGE_NAMES, Check, Claim, column_info
from recap.statistics.comparison import SIGNIFICANT, UNITS, Sample, compare_rows, correct
from recap.statistics.scores import NO_IMAGES, RowScores, collect

HOLDS, FAILS, UNTOLD, NOT_RUN = "holds", "does not hold", "cannot be told", "not run"
NO_PROGRAM = "not for a program"


@dataclass(frozen=True)
class Judged:
    """One metric of a check against a row or number, in percent points where shown so."""

    check: Check
    table: str  # that was read
    metric: str
    against: str  # label of the other row, or the printed number
    verdict: str = UNTOLD
    why: str = ""  # there is no verdict
    printed: float | None = None  # difference of the printed numbers, or the printed size
    difference: float | None = None  # ours, row minus other
    # 95 % interval over images and runs; over images alone where a row has one run
    low: float | None = None
    high: float | None = None
    p: float | None = None  # Holm's over the comparisons of the claim, the largest of three tests
    planned: bool = True  # whether the scale makes the rows at all
    runs: int = 0  # of the row
    tests: dict[str, Any] | None = (
        None  # what `compare_rows` gave, where the rows could be compared
    )


@dataclass(frozen=True)
class Verdict:
    """What became of a claim: the verdict, why, and the comparisons behind it."""

    claim: Claim
    verdict: str
    why: str
    judged: tuple[Judged, ...] = ()


def judge_claims(spec: JudgedClaims, scores: Path) -> list[Verdict]:
    """Judge claims by the runs in ``scores``, each with Holm's correction over its comparisons."""
    return [_verdict(claim, spec, scores) for claim in spec.claims]


def _verdict(claim: Claim, spec: JudgedClaims, scores: Path) -> Verdict:
    if claim.not_for_a_program:
        return Verdict(claim, NO_PROGRAM, claim.not_for_a_program)
    if claim.settled:
        return Verdict(claim, HOLDS if claim.settled.holds else FAILS, claim.settled.why)
    comparisons = [each for check in claim.checks for each in _compare(check, spec, scores)]
    judged = judge([each for each in comparisons if each.tests]) + [
        each for each in comparisons if not each.tests
    ]
    planned = [each for each in judged if each.planned] or judged
    verdict, unplanned = verdict_of(planned), len(judged) - len(planned)
    deciding = [each for each in planned if each.verdict == verdict]
    why = [_other_stage(each, spec) for each in planned]
    why += [f"{len(deciding)} of {len(planned)} comparisons"] if len(planned) > 1 else []
    why += [f"{counted(unplanned, 'comparison')} not made at this scale"] if unplanned else []
    why += [each.why for each in deciding]
    return Verdict(claim, verdict, "; ".join(dict.fromkeys(filter(None, why))), tuple(judged))


def _other_stage(judged: Judged, spec: JudgedClaims) -> str:
    """Return that scores are of another stage than the printed ones, where they are."""
    table, printed = spec.tables.get(judged.table), spec.printed.get(judged.check.table)
    stage = (
        next((row.stage for row in table.table.rows if row.id == judged.check.row), None)
        if table
        else None
    )
    if stage is None or printed is None or stage == printed.stage:
        return ""
    return f"after {STAGE_NAMES[stage]}, printed after {STAGE_NAMES[printed.stage]}"


def verdict_of(judged: Sequence[Judged]) -> str:
    """Return the verdict on a claim from those on its comparisons, which all must hold."""
    verdicts = {each.verdict for each in judged}
    return next(verdict for verdict in (FAILS, NOT_RUN, UNTOLD, HOLDS) if verdict in verdicts)


def _compare(check: Check, spec: JudgedClaims, scores: Path) -> list[Judged]:
    """Return the comparisons of a check, or why there are none."""
    own, other = spec.tables.get(check.table), spec.tables.get(check.in_place or "")
    # The table in place of another is read where the check's own one is missing,
    # or has one seed and so no verdict.
    in_place = other is not None and (own is None or len(own.seeds) < min(2, len(other.seeds)))
    name = str(check.in_place) if in_place else check.table
    opponents = check.rows or [check.quoted or f"{check.printed:g}"]

    def without(
        verdict: str, why: str, rows: Sequence[str] = opponents, *, planned: bool = True
    ) -> list[Judged]:
        pairs = [(metric, row) for metric in check.metrics for row in rows]
        return [
            Judged(check, name, *pair, verdict=verdict, why=why, planned=planned) for pair in pairs
        ]

    if name not in spec.tables:
        return without(NOT_RUN, "its table is not made at this scale", planned=False)
    table, seeds = spec.tables[name].table, spec.tables[name].seeds
    rows = {row.id: row for row in table.rows if row.id in {check.row, *check.rows}}
    lacking = {
        row: f"row {row} is not run at this scale"
        for row in (check.row, *check.rows)
        if row not in rows
    }
    if check.row in lacking or (check.rows and not set(check.rows) - set(lacking)):
        return without(NOT_RUN, next(iter(lacking.values())), planned=False)
    if all(metric in server_names() for metric in check.metrics):
        return without(UNTOLD, NO_IMAGES)
    if not check.rows and not rows[check.row].as_printed:
        return without(
            UNTOLD,
            "scores on other data or of other settings cannot be compared with a printed number",
        )
    left_out = [
        each for row, why in lacking.items() for each in without(NOT_RUN, why, [row], planned=False)
    ]
    opponents = [row for row in opponents if row not in lacking]
    runs = [run for row in rows.values() for run in row_runs(row, seeds)]
    finished = sum((scores / run.path / "metrics.json").exists() for run in runs)
    if finished < len(runs):
        return without(NOT_RUN, f"{finished} of {len(runs)} runs of {name}", opponents) + left_out
    part = table.model_copy(
        update={"rows": list(rows.values()), "columns": list(check.metrics), "server": None}
    )
    row_scores = {each.row.id: each for each in collect(part, seeds, scores, {}, {})}
    printed = {row.id: row.printed for row in table.rows} | {
        row.id: row.printed for row in table.quoted
    }
    if check.table in spec.printed:
        printed = spec.printed[check.table].rows
    pairs = [(metric, row) for metric in check.metrics for row in opponents]
    return [
        *(_compared(Judged(check, name, *pair), row_scores, table, printed) for pair in pairs),
        *left_out,
    ]


def _compared(
    judged: Judged,
    scores: Mapping[str, RowScores],
    table: Table,
    printed: Mapping[str, Mapping[str, float]],
) -> Judged:
    """Add one metric's tests against a row, or a printed number as every image's and run's."""
    check, metric, other = judged.check, judged.metric, judged.against
    quoted = next((row for row in table.quoted if row.id == other), None)
    label = scores[other].row.label if other in scores else quoted.label if quoted else other
    judged = replace(judged, against=label)
    for side in (scores[row] for row in (other, check.row) if row in scores):
        if not side.values.get(metric):
            return replace(judged, why=f"{metric}: {side.reasons.get(metric)}")
    own = scores[check.row].sample(metric)
    if other in scores:
        base = scores[other].sample(metric)
    else:
        number = quoted.printed.get(metric) if quoted else check.printed
        if number is None:
            return replace(judged, why=f"{metric} of {label} is not printed")
        if abs(fmean(own.images) - fmean(own.runs)) > 1e-6:  # more than by rounding
            return replace(judged, why=f"{metric} of a corpus is no mean over its images")
        number /= column_info(metric).scale
        base = Sample([number] * len(own.images), [number] * 2)
    tests = compare_rows(metric, base, own, higher_is_better=score_info(metric).higher_is_better)
    ours, theirs = (printed.get(row, {}).get(metric) for row in (check.row, other))
    size = -check.size if check.size and check.sign == "lower" else check.size
    if size is None and check.printed is None and ours is not None and theirs is not None:
        size = round(ours - theirs, 6)
    return replace(judged, printed=size, tests=tests, runs=len(own.runs))


def judge(compared: Sequence[Judged]) -> list[Judged]:
    """Judge a claim's tested comparisons, Holm's family, as a table marks its rows."""
    correct([each.tests for each in compared if each.tests])
    level = SIGNIFICANT / max(1, len(compared))
    return [_judged(each, each.tests, level) for each in compared if each.tests]


def _judged(each: Judged, tests: Mapping[str, Any], level: float) -> Judged:
    """Return a comparison with its numbers and its verdict.

    ``level`` is what Holm asks of the smallest p.
    """
    check, scale, joint = each.check, column_info(each.metric).scale, tests["joint"]
    low, high = (None if end is None else scale * end for end in _interval(tests, SIGNIFICANT))
    difference = scale * tests["difference"]
    judged = replace(each, difference=difference, low=low, high=high, p=joint["p_holm"])
    if joint["p"] is None:
        reasons = (tests[key]["reason"] for key in ("welch", "paired", "joint"))
        return replace(judged, why=next(filter(None, reasons)))
    if check.within is not None:  # whether a printed number is reached
        lower, upper = (scale * (end or 0.0) for end in _interval(tests, level))
        if -check.within <= lower and upper <= check.within:
            return replace(judged, verdict=HOLDS)
        if upper < -check.within or lower > check.within:
            return replace(judged, verdict=FAILS)
        why = (
            f"the interval is not within {check.within:g} points of the printed number, nor outside"
        )
        return replace(judged, why=why)
    if not tests["mark"]:
        return replace(
            judged, why="the difference is not significant over images and runs with these seeds"
        )
    holds = (difference > 0) == (check.sign == "higher")
    return replace(judged, verdict=HOLDS if holds else FAILS)


def _interval(tests: Mapping[str, Any], level: float) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of a difference d, the widest of the tests that have one.

    A test with statistic t has the standard error d / t, so its interval is d -+ t_(1 - level / 2)
    * abs(d / t).
    """
    from scipy import stats

    margins = []
    for key in UNITS.values():
        test = tests[key]
        if test["t"]:
            difference = test["mean_difference"] if key == "paired" else tests["difference"]
            degrees = test["images"] - 1 if key == "paired" else test["degrees"]
            margins.append(float(stats.t.isf(level / 2, degrees)) * abs(difference / test["t"]))
    if not margins:
        return None, None
    return tests["difference"] - max(margins), tests["difference"] + max(margins)
