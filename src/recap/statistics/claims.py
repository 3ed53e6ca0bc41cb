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
from recap.settings.tables import STAGE_NAMES, Check, Claim, column_info
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
    tested: list[ComparisonVerdict] = []
    untested: list[ComparisonVerdict] = []
    for check in claim.checks:
        for each in _compare(check, spec, scores):
            (tested if each.tests else untested).append(each)
    comparisons = judge(tested) + untested
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
        return _not_planned(every, "its table is not made at this scale")
    table = spec.tables[name].table
    rows = {row.id: row for row in table.rows if row.id in {check.row, *check.rows}}
    lacking = [row for row in (check.row, *check.rows) if row not in rows]
    if check.row in lacking or (check.rows and set(check.rows) <= set(lacking)):
        return _not_planned(every, _row_lacks(lacking[0]))
    if why := _untold(check, rows[check.row]):
        return _without_test(every, UNTOLD, why)
    planned: list[ComparisonVerdict] = []
    left_out: list[ComparisonVerdict] = []
    for each in every:
        if each.against in lacking:
            left_out += _not_planned([each], _row_lacks(each.against))
        else:
            planned.append(each)
    return _compare_runs(planned, list(rows.values()), spec, scores) + left_out


def _compare_runs(
    planned: list[ComparisonVerdict], rows: list[Row], spec: ClaimsSpec, scores: Path
) -> list[ComparisonVerdict]:
    """Return the comparisons of a check whose rows are run at this scale."""
    check = planned[0].check
    name = planned[0].table
    table = spec.tables[name].table
    seeds = spec.tables[name].seeds
    runs: list[Run] = []
    for row in rows:
        runs += row_runs(row, seeds)
    finished = sum((scores / run.path / "metrics.json").exists() for run in runs)
    if finished < len(runs):
        return _without_test(planned, NOT_RUN, f"{finished} of {len(runs)} runs of {name}")
    part = table.model_copy(update={"rows": rows, "columns": list(check.metrics), "server": None})
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


def _row_lacks(row: str) -> str:
    return f"row {row} is not run at this scale"


def _without_test(
    comparisons: Sequence[ComparisonVerdict], verdict: str, why: str, *, planned: bool = True
) -> list[ComparisonVerdict]:
    return [replace(each, verdict=verdict, why=why, planned=planned) for each in comparisons]


def _not_planned(comparisons: Sequence[ComparisonVerdict], why: str) -> list[ComparisonVerdict]:
    return _without_test(comparisons, NOT_RUN, why, planned=False)


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

    ``printed``: what is printed in the check's table, where another one is in its place.
    """
    check = comparison.check
    own = scores[check.row]
    if check.rows:
        tested = _against_row(comparison, own, scores[comparison.against])
    else:
        tested = _against_number(comparison, own, table)
    if not tested.tests:
        return tested
    numbers = {row.id: row.printed for row in table.rows}
    numbers |= {row.id: row.printed for row in table.quoted}
    size = _printed_size(comparison, printed.rows if printed else numbers)
    return replace(tested, printed=size)


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


def _against_row(
    comparison: ComparisonVerdict, own: RowScores, other: RowScores
) -> ComparisonVerdict:
    """Add one metric's tests against another row."""
    metric = comparison.metric
    comparison = replace(comparison, against=other.row.label)
    for side in (other, own):
        if not side.values.get(metric):
            return replace(comparison, why=f"{metric}: {side.reasons.get(metric)}")
    return _tested(comparison, own.sample(metric), other.sample(metric))


def _against_number(
    comparison: ComparisonVerdict, own: RowScores, table: Table
) -> ComparisonVerdict:
    """Add one metric's tests against a printed number, taken as every image's and run's."""
    metric = comparison.metric
    number = comparison.check.printed
    for row in table.quoted:
        if row.id == comparison.check.quoted:
            comparison = replace(comparison, against=row.label)
            number = row.printed.get(metric)
    if not own.values.get(metric):
        return replace(comparison, why=f"{metric}: {own.reasons.get(metric)}")
    if number is None:
        return replace(comparison, why=f"{metric} of {comparison.against} is not printed")
    sample = own.sample(metric)
    if abs(fmean(sample.images) - fmean(sample.runs)) > 1e-6:  # more than by rounding
        return replace(comparison, why=f"{metric} of a corpus is no mean over its images")
    number /= column_info(metric).scale
    return _tested(comparison, sample, Sample([number] * len(sample.images), [number] * 2))


def _tested(comparison: ComparisonVerdict, own: Sample, base: Sample) -> ComparisonVerdict:
    tests = compare_rows(comparison.metric, base, own)
    return replace(comparison, tests=tests, runs=len(own.runs))


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
    comparison = replace(
        each, tests=tests, difference=scale * tests.difference, p=tests.joint.p_holm
    )
    if (interval := _interval(tests, SIGNIFICANT)) is not None:
        comparison = replace(comparison, low=scale * interval[0], high=scale * interval[1])
    if tests.joint.p is None:
        why = tests.welch.reason or tests.paired.reason or tests.joint.reason or ""
        return replace(comparison, why=why)
    check = each.check
    if check.within is not None:
        return _reached(comparison, check.within, _interval(tests, level) or (0.0, 0.0))
    if not tests.mark:
        return replace(
            comparison,
            why="the difference is not significant over images and runs with these seeds",
        )
    higher = scale * tests.difference > 0
    return replace(comparison, verdict=HOLDS if higher == (check.sign == "higher") else FAILS)


def _reached(
    comparison: ComparisonVerdict, within: float, interval: tuple[float, float]
) -> ComparisonVerdict:
    """Add whether a printed number is reached within some points."""
    scale = column_info(comparison.metric).scale
    low = scale * interval[0]
    high = scale * interval[1]
    if -within <= low and high <= within:
        return replace(comparison, verdict=HOLDS)
    if high < -within or low > within:
        return replace(comparison, verdict=FAILS)
    why = f"the interval is not within {within:g} points of the printed number, nor outside"
    return replace(comparison, why=why)


def _interval(tests: Comparison, level: float) -> tuple[float, float] | None:
    """Return the interval of a difference d, the widest of the tests that have one.

    A test with statistic t has the standard error d / t, so its interval is d -+ t_(1 - level / 2)
    * abs(d / t).
    """
    from scipy import stats

    margins = []
    if tests.paired.t:
        quantile = float(stats.t.isf(level / 2, tests.paired.images - 1))
        margins.append(quantile * abs(tests.paired.mean_difference / tests.paired.t))
    for test in (tests.welch, tests.joint):
        if test.t:
            quantile = float(stats.t.isf(level / 2, test.degrees))
            margins.append(quantile * abs(tests.difference / test.t))
    if not margins:
        return None
    return tests.difference - max(margins), tests.difference + max(margins)
