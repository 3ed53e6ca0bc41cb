"""One comparison of a claim: its interval, its verdict by the rule of a table's marks, and the power of its seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import Any

from recap.settings.claims import Check
from recap.statistics.comparison import SIGNIFICANT, UNITS, correct
from recap.statistics.power import Errors

HOLDS, FAILS, UNTOLD, NOT_RUN, NO_PROGRAM = (
    "holds",
    "does not hold",
    "cannot be told",
    "not run",
    "not for a program",
)


@dataclass(frozen=True)
class Judged:
    """One metric of a check against one row or number, in percent points where the metric is shown so.

    Attributes:
        check: of the claim.
        table: name of the table that was read.
        metric: its name.
        against: label of the other row, or the printed number.
        verdict: HOLDS, FAILS, UNTOLD or NOT_RUN.
        why: reason of the last two.
        printed: difference of the printed numbers, or the printed size.
        difference: ours, row minus other.
        low, high: 95 % interval over images and runs; over images alone where a row has one run.
        p: Holm's over the comparisons of the claim, the largest of three tests.
        planned: whether the scale makes the rows at all.
        runs: runs of the row.
        power: that these runs had to show a difference of the printed size.
        seeds: that would show it with 80 % power; 0: more than can be told.
    """

    check: Check
    table: str
    metric: str
    against: str
    verdict: str = UNTOLD
    why: str = ""
    printed: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    planned: bool = True
    runs: int = 0
    power: float | None = None
    seeds: int | None = None


@dataclass(frozen=True)
class Compared:
    """A comparison before its family is known: what is judged, the tests, the runs of both rows, the metric's scale."""

    judged: Judged
    tests: dict[str, Any]
    runs: Sequence[Sequence[float]]
    scale: float


def judge(compared: Sequence[Compared]) -> list[Judged]:
    """Judge the comparisons of one claim, which are one family for Holm's correction, as a table marks its rows."""
    correct([each.tests for each in compared])
    level = SIGNIFICANT / max(1, len(compared))
    return [_judged(each, level) for each in compared]


def _judged(each: Compared, level: float) -> Judged:
    tests, scale, check = each.tests, each.scale, each.judged.check
    low, high = interval(tests, SIGNIFICANT)
    joint = tests["joint"]
    found = replace(
        each.judged,
        difference=scale * tests["difference"],
        low=_scaled(low, scale),
        high=_scaled(high, scale),
        p=joint["p_holm"],
        runs=len(each.runs[-1]),
    )
    found = _with_power(found, each, level)
    if joint["p"] is None:
        return replace(found, why=_reason(tests))
    if check.sign == "equal":
        return _equal(found, tests, scale, level)
    if not tests["mark"]:
        return replace(found, why="the difference is not significant over images and runs with these seeds")
    holds = (tests["difference"] > 0) == (check.sign == "higher")
    return replace(found, verdict=HOLDS if holds else FAILS)


def _reason(tests: Mapping[str, Any]) -> str:
    return str(next(filter(None, (tests[key]["reason"] for key in ("welch", "paired", "joint")))))


def _equal(found: Judged, tests: Mapping[str, Any], scale: float, level: float) -> Judged:
    """Judge whether a printed number is reached: the interval lies within the tolerance, or outside of it."""
    within = found.check.within or 0.0
    low, high = (scale * (end or 0.0) for end in interval(tests, level))
    if -within <= low and high <= within:
        return replace(found, verdict=HOLDS)
    if high < -within or low > within:
        return replace(found, verdict=FAILS)
    return replace(found, why=f"the interval is not within {within:g} points of the printed number, nor outside")


def interval(tests: Mapping[str, Any], level: float) -> tuple[float | None, float | None]:
    """Return the ends of the interval of a difference, the widest of the tests that have one."""
    from scipy import stats

    margins = []
    for key in UNITS.values():
        test = tests[key]
        if test["t"]:
            centre = test["mean_difference"] if key == "paired" else tests["difference"]
            degrees = test["images"] - 1 if key == "paired" else test["degrees"]
            margins.append(float(stats.t.isf(level / 2, degrees)) * abs(centre / test["t"]))
    if not margins:
        return None, None
    return tests["difference"] - max(margins), tests["difference"] + max(margins)


def _with_power(found: Judged, each: Compared, level: float) -> Judged:
    """Add the power of the seeds for the printed size, where rows of several runs say how much runs differ."""
    varied = each.runs if found.check.rows else each.runs[-1:]  # a printed number does not vary
    runs = min(map(len, varied))
    paired, spread = each.tests["paired"], fmean(map(variance, varied)) if runs > 1 else 0.0
    size = (found.check.within or abs(found.printed or 0)) / each.scale
    if not paired["t"] or not spread or not size:
        return found
    errors = Errors(abs(paired["mean_difference"] / paired["t"]), paired["images"], spread, rows=len(varied))
    return replace(found, power=errors.power(size, level, runs), seeds=errors.seeds_for(size, level) or 0)


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else scale * value


def verdict_of(judged: Sequence[Judged]) -> str:
    """Return the verdict on a claim from those on its comparisons, which all must hold."""
    found = {each.verdict for each in judged}
    return next(verdict for verdict in (FAILS, NOT_RUN, UNTOLD, HOLDS) if verdict in found)
