"""Judges a paper's claims from the scores of finished runs, by the rule of a table's marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from recap.core.errors import counted
from recap.plan.run import Run, row_runs
from recap.settings import Row, Table
from recap.settings.metrics import server_names
from recap.settings.specs import ClaimsSpec, PrintedTable
from recap.settings.tables import STAGE_NAMES, Check, Claim, QuotedRow, column_info
from recap.statistics.comparison import SIGNIFICANT, Sample, compare_rows, correct
from recap.statistics.results import Comparison
from recap.statistics.scores import NO_IMAGES, RowScores, collect

HOLDS, FAILS, UNTOLD, NOT_RUN = "holds", "does not hold", "cannot be told", "not run"
NO_PROGRAM = "not for a program"


@dataclass(frozen=True)
class ComparisonVerdict:
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
    tests: Comparison | None = None  # where the rows could be compared


@dataclass(frozen=True)
class ClaimVerdict:
    """What became of a claim: the verdict, why, and the comparisons behind it."""

    claim: Claim
    verdict: str
    why: str
    comparisons: tuple[ComparisonVerdict, ...] = ()


def judge_claims(spec: ClaimsSpec, scores: Path) -> list[ClaimVerdict]:
    """Judge claims by the runs in ``scores``, each with Holm's correction over its comparisons."""
    return [_verdict(claim, spec, scores) for claim in spec.claims]


def _verdict(claim: Claim, spec: ClaimsSpec, scores: Path) -> ClaimVerdict:
    if claim.reason_unjudged:
        return ClaimVerdict(claim, NO_PROGRAM, claim.reason_unjudged)
    if claim.fixed_verdict:
        return ClaimVerdict(
            claim, HOLDS if claim.fixed_verdict.holds else FAILS, claim.fixed_verdict.why
        )
    every: list[ComparisonVerdict] = []
    for check in claim.checks:
        every += _compare(check, spec, scores)
    untested = [each for each in every if each.tests is None]
    comparisons = judge([each for each in every if each.tests]) + untested
    planned = [each for each in comparisons if each.planned] or comparisons
    verdict = verdict_of(planned)
    unplanned = len(comparisons) - len(planned)
    deciding = [each for each in planned if each.verdict == verdict]
    why = [_other_stage(each, spec) for each in planned]
    if len(planned) > 1:
        why.append(f"{len(deciding)} of {len(planned)} comparisons")
    if unplanned:
        why.append(f"{counted(unplanned, 'comparison')} not made at this scale")
    why += [each.why for each in deciding]
    return ClaimVerdict(
        claim, verdict, "; ".join(dict.fromkeys(filter(None, why))), tuple(comparisons)
    )


def _other_stage(comparison: ComparisonVerdict, spec: ClaimsSpec) -> str:
    """Return that scores are of another stage than the printed ones, where they are."""
    printed = spec.printed.get(comparison.check.table)
    if printed is None or comparison.table not in spec.tables:
        return ""
    for row in spec.tables[comparison.table].table.rows:
        if row.id == comparison.check.row and row.stage != printed.stage:
            return f"after {STAGE_NAMES[row.stage]}, printed after {STAGE_NAMES[printed.stage]}"
    return ""


def verdict_of(comparisons: Sequence[ComparisonVerdict]) -> str:
    """Return the verdict on a claim from those on its comparisons, which all must hold."""
    verdicts = {each.verdict for each in comparisons}
    return next(verdict for verdict in (FAILS, NOT_RUN, UNTOLD, HOLDS) if verdict in verdicts)


def _compare(check: Check, spec: ClaimsSpec, scores: Path) -> list[ComparisonVerdict]:
    """Return the comparisons of a check, or why there are none."""
    name = _table_read(check, spec)
    every = []
    for metric in check.metrics:
        for other in check.rows or [check.quoted or f"{check.printed:g}"]:
            every.append(ComparisonVerdict(check, name, metric, other))
    if name not in spec.tables:
        why = "its table is not made at this scale"
        return [replace(each, verdict=NOT_RUN, why=why, planned=False) for each in every]
    named = (check.row, *check.rows)
    rows = {row.id: row for row in spec.tables[name].table.rows if row.id in named}
    missing = [row for row in named if row not in rows]
    planned = []
    left_out = []
    for each in every:
        lacking = [row for row in missing if row in (check.row, each.against)]
        if lacking:
            why = f"row {lacking[0]} is not run at this scale"
            left_out.append(replace(each, verdict=NOT_RUN, why=why, planned=False))
        else:
            planned.append(each)
    if planned:
        planned = _compare_runs(planned, rows, spec, scores)
    return planned + left_out


def _compare_runs(
    planned: list[ComparisonVerdict], rows: Mapping[str, Row], spec: ClaimsSpec, scores: Path
) -> list[ComparisonVerdict]:
    """Return the comparisons of a check whose rows are run at this scale."""
    check = planned[0].check
    name = planned[0].table
    if why := _untold(check, rows[check.row]):
        return [replace(each, why=why) for each in planned]
    table = spec.tables[name].table
    seeds = spec.tables[name].seeds
    runs: list[Run] = []
    for row in rows.values():
        runs += row_runs(row, seeds)
    finished = sum((scores / run.path / "metrics.json").exists() for run in runs)
    if finished < len(runs):
        why = f"{finished} of {len(runs)} runs of {name}"
        return [replace(each, verdict=NOT_RUN, why=why) for each in planned]
    compared = {"rows": list(rows.values()), "columns": list(check.metrics), "server": None}
    part = table.model_copy(update=compared)
    row_scores = {each.row.id: each for each in collect(part, seeds, scores, {}, {})}
    printed = spec.printed.get(check.table)
    return [_test(each, row_scores, table, printed) for each in planned]


def _table_read(check: Check, spec: ClaimsSpec) -> str:
    """Return the table that a check is read from: its own, or the one in its place."""
    own = spec.tables.get(check.table)
    other = spec.tables.get(check.fallback_table or "")
    if check.fallback_table is None or other is None:
        return check.table
    # The other one is read where the check's own is missing, or has one seed and so no verdict.
    if own is None or len(own.seeds) < min(2, len(other.seeds)):
        return check.fallback_table
    return check.table


def _untold(check: Check, row: Row) -> str:
    """Return why a check cannot be told from any scores of its row, or ""."""
    if all(metric in server_names() for metric in check.metrics):
        return NO_IMAGES
    if not check.rows and not row.as_printed:
        return "scores on other data or of other settings cannot be compared with a printed number"
    return ""


def _test(
    comparison: ComparisonVerdict,
    scores: Mapping[str, RowScores],
    table: Table,
    printed: PrintedTable | None,
) -> ComparisonVerdict:
    """Add one metric's tests, or why there are none.

    A printed number is taken as every image's and run's. ``printed``: what is printed in the
    check's table, where another one is in its place.
    """
    check = comparison.check
    metric = comparison.metric
    every: list[Row | QuotedRow] = [*table.rows, *table.quoted]
    lines = {row.id: row for row in every}
    numbers = {row.id: row.printed for row in every}
    size = _printed_size(comparison, printed.rows if printed else numbers)
    own = scores[check.row]
    other = scores[comparison.against] if check.rows else None
    number = check.printed
    if number is None and (line := lines.get(comparison.against)):
        number = line.printed.get(metric)
        comparison = replace(comparison, against=line.label)
    for side in filter(None, (other, own)):
        if not side.values.get(metric):
            return replace(comparison, why=f"{metric}: {side.reasons.get(metric)}")
    sample = own.sample(metric)
    if other:
        base = other.sample(metric)
    elif number is None:
        return replace(comparison, why=f"{metric} of {comparison.against} is not printed")
    elif abs(fmean(sample.images) - fmean(sample.runs)) > 1e-6:  # more than by rounding
        return replace(comparison, why=f"{metric} of a corpus is no mean over its images")
    else:
        number /= column_info(metric).scale
        base = Sample([number] * len(sample.images), [number] * 2)
    tests = compare_rows(metric, base, sample)
    return replace(comparison, tests=tests, runs=len(sample.runs), printed=size)


def _printed_size(
    comparison: ComparisonVerdict, printed: Mapping[str, Mapping[str, float]]
) -> float | None:
    """Return the size of a difference in the paper: what a claim says, else of printed rows."""
    check = comparison.check
    if check.size is not None:
        return -check.size if check.sign == "lower" else check.size
    ours = printed.get(check.row, {}).get(comparison.metric)
    theirs = printed.get(comparison.against, {}).get(comparison.metric)
    if check.printed is not None or ours is None or theirs is None:
        return None
    return round(ours - theirs, 6)


def judge(compared: Sequence[ComparisonVerdict]) -> list[ComparisonVerdict]:
    """Judge a claim's tested comparisons, Holm's family, as a table marks its rows."""
    family = correct([each.tests for each in compared if each.tests])
    level = SIGNIFICANT / max(1, len(compared))
    judged = []
    for each, tests in zip(compared, family, strict=True):
        judged.append(_with_verdict(each, tests, level))
    return judged


def _with_verdict(each: ComparisonVerdict, tests: Comparison, level: float) -> ComparisonVerdict:
    """Return a comparison with its numbers and its verdict.

    ``level`` is what Holm asks of the smallest p.
    """
    scale = column_info(each.metric).scale
    low, high = _interval(tests, SIGNIFICANT, scale)
    comparison = replace(
        each,
        tests=tests,
        difference=scale * tests.difference,
        low=low,
        high=high,
        p=tests.joint.p_holm,
    )
    if tests.joint.p is None:
        why = tests.welch.reason or tests.paired.reason or tests.joint.reason or ""
        return replace(comparison, why=why)
    check = each.check
    if check.within is not None:
        low, high = _interval(tests, level, scale)
        low = low or 0.0
        high = high or 0.0
        if -check.within <= low and high <= check.within:
            return replace(comparison, verdict=HOLDS)
        if high < -check.within or low > check.within:
            return replace(comparison, verdict=FAILS)
        why = (
            f"the interval is not within {check.within:g} points of the printed number, nor outside"
        )
        return replace(comparison, why=why)
    if not tests.mark:
        return replace(
            comparison,
            why="the difference is not significant over images and runs with these seeds",
        )
    higher = scale * tests.difference > 0
    return replace(comparison, verdict=HOLDS if higher == (check.sign == "higher") else FAILS)


def _interval(
    tests: Comparison, level: float, scale: float
) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of a difference d times a scale, the widest of the tests that have one.

    A test with statistic t has the standard error d / t, so its interval is d -+ t_(1 - level / 2)
    * abs(d / t).
    """
    from scipy import stats

    paired = tests.paired
    difference = tests.difference
    margins = []
    for over, t, degrees in (
        (paired.mean_difference, paired.t, paired.images - 1),
        (difference, tests.welch.t, tests.welch.degrees),
        (difference, tests.joint.t, tests.joint.degrees),
    ):
        if t:
            margins.append(float(stats.t.isf(level / 2, degrees)) * abs(over / t))
    if not margins:
        return None, None
    margin = max(margins)
    return scale * (difference - margin), scale * (difference + margin)
