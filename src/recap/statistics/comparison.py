"""Comparison of two systems on one metric: tests over images,
runs and both, Holm's correction, and the power of seeds.

All differences are second minus first, a row of a table minus its baseline row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import NamedTuple

import numpy as np

from recap.core.hashing import generator
from recap.settings.metrics import score_info
from recap.statistics.results import (
    CellResult,
    Comparison,
    Paired,
    Power,
    RowResult,
    TTest,
)

SIGNIFICANT = 0.05
LEVEL = 0.95  # of intervals
POWER = 0.8
MOST = 100  # seeds that are tried until the power suffices
UNITS = ("images", "runs", "both")  # of a table's tests
# Means over seeds differ by rounding in the last digits;
# without rounding, tied images would be ranked by noise.
_DECIMALS = 12
# pycocoevalcap's BLEU is never 0: without a common 4-gram,
# BLEU-4 is up to 1.8e-4, which grows as the caption shrinks.
_BLEU_FLOOR = 1e-3


class Sample(NamedTuple):
    """A system's scores: images' means over runs ``[images]``, and the corpus' ``[runs]``."""

    images: Sequence[float]
    runs: Sequence[float]


def compare_paired(first: Sequence[float], second: Sequence[float]) -> Paired:
    """Compare scores ``[images]`` of two systems on the same images, in the same order."""
    differences = np.round(np.subtract(second, first), _DECIMALS)
    count = len(differences)
    mean = float(differences.mean())
    if count < 2:
        return Paired(count, mean, reason="needs at least 2 images")
    if not differences.any():
        return Paired(count, 0.0, low=0.0, high=0.0, reason="all differences are zero")
    from scipy import stats

    p_wilcoxon = float(stats.wilcoxon(differences[differences != 0]).pvalue)
    if np.ptp(differences) == 0:
        return Paired(
            count,
            mean,
            mean,
            mean,
            p_wilcoxon=p_wilcoxon,
            reason="every image differs by the same amount",
        )
    deviation = float(differences.std(ddof=1))
    root = float(np.sqrt(count))
    t = mean / (deviation / root)
    p = _two_sided(t, count - 1)
    margin = float(stats.t.ppf(0.975, count - 1)) * deviation / root
    return Paired(
        count, mean, mean - margin, mean + margin, t, p, d_z=mean / deviation, p_wilcoxon=p_wilcoxon
    )


def welch(first: Sequence[float], second: Sequence[float]) -> TTest:
    """Compare corpus scores ``[runs]`` of two systems by Welch's test;
    their seeds need not be the same.

    With mean m_i, variance v_i (ddof 1) and n_i runs of system i, and e_i = v_i / n_i::

        t = (m_2 - m_1) / sqrt(e_1 + e_2)
        degrees = (e_1 + e_2)^2 / (e_1^2 / (n_1 - 1) + e_2^2 / (n_2 - 1))
    """
    if min(len(first), len(second)) < 2:
        return TTest(reason="a row has only one run")
    one = np.round(first, _DECIMALS)
    two = np.round(second, _DECIMALS)
    if np.ptp(one) == 0 and np.ptp(two) == 0:
        return TTest(reason="the runs of each row all give the same value")
    error_one = float(one.var(ddof=1)) / len(one)
    error_two = float(two.var(ddof=1)) / len(two)
    t = float(two.mean() - one.mean()) / (error_one + error_two) ** 0.5
    degrees = _satterthwaite(error_one, error_two, len(one) - 1, len(two) - 1)
    return TTest(t=t, degrees=degrees, p=_two_sided(t, degrees))


def compare_jointly(paired: Paired, runs: TTest) -> TTest:
    """Combine the test over images with the test over runs
    of the same difference: Clark's min F' (1973).

    Each of the two treats the other's random factor as fixed, so both together can reject a true
    null hypothesis more often than 5 % of the time: 10 % with ten seeds and equal standard errors.
    The joint test does not (`benchmarks/table_marks.py`). With the squared standard errors e_i = 1
    / t_i^2 in units of the squared difference::

        t = 1 / sqrt(e_images + e_runs)
        degrees = (e_images + e_runs)^2 / (e_images^2 / (n - 1) + e_runs^2 / degrees_runs)
        (Satterthwaite)

    ``p`` is the largest of the three: of this t, of the paired test and of Welch's.
    """
    if paired.t is None or paired.p is None:
        return TTest(reason=paired.reason)
    if runs.t is None or runs.degrees is None or runs.p is None:
        return TTest(reason=runs.reason)
    if paired.t * runs.t < 0:
        return TTest(reason="image scores and corpus scores point in opposite directions")
    if paired.t * runs.t == 0:
        return TTest(t=0.0, degrees=runs.degrees, p=1.0)
    over_images = paired.t**-2
    over_runs = runs.t**-2
    t = (over_images + over_runs) ** -0.5
    degrees = _satterthwaite(over_images, over_runs, paired.images - 1, runs.degrees)
    p = max(_two_sided(t, degrees), paired.p, runs.p)
    return TTest(t=t if runs.t > 0 else -t, degrees=degrees, p=p)


def _satterthwaite(one: float, two: float, degrees_one: float, degrees_two: float) -> float:
    """Return the degrees of freedom of the sum of two squared standard errors."""
    return (one + two) ** 2 / (one**2 / degrees_one + two**2 / degrees_two)


def _two_sided(t: float, degrees: float) -> float:
    """Return the p of a t statistic."""
    from scipy import stats

    return float(2 * stats.t.sf(abs(t), degrees))


def compare_rows(metric: str, baseline: Sample, row: Sample) -> Comparison:
    """Return the tests of one metric of a row against the baseline row.

    A BLEU below 0.001 counts as 0 in them.
    """
    paired = compare_paired(_tested(metric, baseline.images), _tested(metric, row.images))
    over_runs = welch(_tested(metric, baseline.runs), _tested(metric, row.runs))
    return Comparison(
        difference=fmean(row.runs) - fmean(baseline.runs),
        paired=paired,
        welch=over_runs,
        joint=compare_jointly(paired, over_runs),
        lower_is_better=not score_info(metric).higher_is_better,
    )


def _tested(metric: str, values: Sequence[float]) -> Sequence[float]:
    if not metric.startswith("BLEU"):
        return values
    return [0.0 if value < _BLEU_FLOOR else value for value in values]


def correct(comparisons: Sequence[Comparison], *, units: Sequence[str] = UNITS) -> list[Comparison]:
    """Return a family with Holm's p of all tests, and with ``mark`` of what all units find."""
    paired = holm([each.paired.p for each in comparisons])
    wilcoxon = holm([each.paired.p_wilcoxon for each in comparisons])
    over_runs = holm([each.welch.p for each in comparisons])
    joint = holm([each.joint.p for each in comparisons])
    corrected = []
    for at, each in enumerate(comparisons):
        own = replace(
            each,
            paired=replace(each.paired, p_holm=paired[at], p_wilcoxon_holm=wilcoxon[at]),
            welch=replace(each.welch, p_holm=over_runs[at]),
            joint=replace(each.joint, p_holm=joint[at]),
        )
        corrected.append(replace(own, mark=_mark(own, units)))
    return corrected


def count_tests(comparisons: Sequence[Comparison]) -> dict[str, int]:
    """Return how many comparisons of a family allow each test."""
    p_values = {
        "paired.p": [each.paired.p for each in comparisons],
        "paired.p_wilcoxon": [each.paired.p_wilcoxon for each in comparisons],
        "welch.p": [each.welch.p for each in comparisons],
        "joint.p": [each.joint.p for each in comparisons],
    }
    return {name: len(of_test) - of_test.count(None) for name, of_test in p_values.items()}


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return Holm's step-down adjusted p-values in the same order;
    None stands for a test that gave no p.

    Of the m sorted p-values, the k-th becomes max over j <= k of min(1, (m - j + 1) p_j).
    """
    ranked = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(ranked):
        largest = max(largest, min(1.0, (len(ranked) - rank) * p))
        adjusted[index] = largest
    return adjusted


def _mark(comparison: Comparison, units: Sequence[str]) -> int:
    """Return 1 or -1 where a row is significantly better or worse than the baseline, else 0."""
    for unit in units:
        p = comparison.tests[unit].p_holm
        if p is None or p >= SIGNIFICANT:
            return 0
    # The mean image score and the corpus score can differ
    # in opposite directions, as BLEU and METEOR do.
    if comparison.paired.mean_difference * comparison.difference <= 0:
        return 0
    return 1 if (comparison.difference < 0) == comparison.lower_is_better else -1


def percentile_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % bootstrap interval of the mean of ``[images]``, the same on every call.

    None for one image.
    """
    if len(values) < 2:
        return None
    from scipy import stats

    interval = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=2_000,
        batch=100,  # resamples in memory at a time
        confidence_level=LEVEL,
        method="percentile",
        random_state=generator(0, "percentile interval"),
    ).confidence_interval
    return float(interval.low), float(interval.high)


@dataclass(frozen=True)
class Errors:
    """What a difference of two rows errs by, in the unit of the difference.

    With k runs of each row, the squared standard error is ``over_images**2`` over images, 2 *
    spread / k over runs, and their sum over both. The error over images stays as it is,
    though part of it shrinks with more seeds.
    """

    over_images: float  # standard error of the difference over images
    images: int
    spread: float  # variance between runs of one row

    def power(self, size: float, level: float, seeds: int) -> float:
        """Return the least power that the three tests have
        for a true difference with ``seeds`` >= 2 runs a row."""
        # Squared standard errors are in units of the squared difference, as in the joint test.
        images = (self.over_images / size) ** 2
        trainings = 2 * self.spread / seeds / size**2
        degrees_images = self.images - 1
        degrees = 2 * (seeds - 1)
        degrees_both = _satterthwaite(images, trainings, degrees_images, degrees)
        both = (images + trainings, degrees_both)
        tests = ((images, degrees_images), (trainings, degrees), both)
        return min(_power(error**-0.5, freedom, level) for error, freedom in tests)

    def seeds_for(self, size: float, level: float, *, more_than: int) -> int | None:
        """Return the least number of seeds with 80 % power; None: more than ``MOST``."""
        if _power(size / self.over_images, self.images - 1, level) < POWER:
            return None
        candidates = range(more_than + 1, MOST + 1)
        return next(
            (seeds for seeds in candidates if self.power(size, level, seeds) >= POWER), None
        )


def _power(size: float, degrees: float, level: float) -> float:
    """Return the power of a two-sided t-test for a true difference of ``size`` standard errors.

    P(T > t_(1 - level / 2)), where T has the noncentral t-distribution with noncentrality ``size``.
    """
    from scipy import stats

    return float(stats.nct.sf(stats.t.isf(level / 2, degrees), degrees, size))


def least_difference(seeds: int, *, comparisons: int) -> float:
    """Return the difference that Welch's test finds with 80 % power, in sd of one run."""
    from scipy import optimize

    root = (seeds / 2) ** 0.5  # a difference of 1 is so many standard errors
    degrees = 2 * seeds - 2
    level = SIGNIFICANT / comparisons
    return float(
        optimize.brentq(lambda size: _power(size * root, degrees, level) - POWER, 0.01, 1e4)
    )


def seeds_needed(rows: Sequence[RowResult], *, comparisons: int) -> Power | None:
    """Return how many seeds (None: over ``MOST``) would mark
    the largest unmarked difference of one metric, if any."""
    for metric in sorted(rows[0].cells, key=lambda name: name != "CIDEr"):
        spread = _spread(row.cells[metric] for row in rows)
        unmarked = []
        for row in rows:
            tests = row.cells[metric].comparison
            # with errors over images and runs (an ensemble: one run)
            if isinstance(tests, Comparison) and tests.paired.t and tests.welch.t:
                error = abs(tests.difference / tests.paired.t)
                if spread and not tests.mark:
                    errors = Errors(error, tests.paired.images, spread)
                    unmarked.append((tests.difference, row.label, errors))
        if not unmarked:
            continue
        difference, label, errors = max(unmarked, key=lambda each: abs(each[0]))
        runs = max(row.cells[metric].n for row in rows)
        level = SIGNIFICANT / comparisons
        seeds = errors.seeds_for(abs(difference), level, more_than=runs)
        return Power(metric, label, difference, seeds)
    return None


def _spread(cells: Iterable[CellResult]) -> float:
    """Return the variance between runs that rows share: one row has too few runs."""
    variances = [variance(cell.values.values()) for cell in cells if cell.n > 1]
    return fmean(variances) if variances else 0.0
