"""Comparison of two rows on one metric: the tests, their correction over a table, and the marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np

from recap.statistics.paired import Paired, compare_paired

SIGNIFICANT = 0.05
# Units of a table's tests: name -> key of the test in a comparison.
UNITS = {"images": "paired", "runs": "welch", "both": "joint"}
# pycocoevalcap's BLEU is never 0: without a common 4-gram, BLEU-4 is up to 1.8e-4, which grows as the caption shrinks.
_BLEU_FLOOR = 1e-3


@dataclass(frozen=True)
class Welch:
    """Welch's t-test, second minus first; None where the runs do not allow a value, with the reason.

    Attributes:
        t: statistic.
        degrees: Welch-Satterthwaite degrees of freedom.
        p: two-sided p.
        reason: why the values are None.
    """

    t: float | None = None
    degrees: float | None = None
    p: float | None = None
    reason: str | None = None


def welch(first: Sequence[float], second: Sequence[float]) -> Welch:
    """Compare corpus scores ``[runs]`` of two systems; the seeds of one need not be those of the other."""
    if min(len(first), len(second)) < 2:
        return Welch(reason="a row has only one run")
    # Rounded as in the paired test: equal scores must not differ in the last digit.
    one, two = np.round(np.asarray(first, np.float64), 12), np.round(np.asarray(second, np.float64), 12)
    if np.ptp(one) == 0 and np.ptp(two) == 0:
        return Welch(reason="the runs of each row all give the same value")
    from scipy import stats

    parts = [float(values.var(ddof=1)) / len(values) for values in (one, two)]
    t = float(two.mean() - one.mean()) / sum(parts) ** 0.5
    degrees = sum(parts) ** 2 / sum(part**2 / (len(v) - 1) for part, v in zip(parts, (one, two), strict=True))
    return Welch(t=t, degrees=degrees, p=float(2 * stats.t.sf(abs(t), degrees)))


@dataclass(frozen=True)
class Joint:
    """Test of a difference over images and training runs together; None where there is no value, with the reason.

    Attributes:
        t: root of Clark's min F' (1973): the difference over the root of both squared standard errors.
        degrees: Satterthwaite degrees of freedom.
        p: the largest of three two-sided p: of ``t``, of the paired test and of Welch's.
        reason: why the values are None.
    """

    t: float | None = None
    degrees: float | None = None
    p: float | None = None
    reason: str | None = None


def compare_jointly(paired: Paired, runs: Welch) -> Joint:
    """Combine the test over images with the test over runs of the same difference.

    Each of the two treats the other's random factor as fixed, so both together can reject a true null hypothesis more
    often than 5 % of the time: 10 % with ten seeds and equal standard errors. The joint test does not
    (`benchmarks/table_marks.py`).
    """
    if paired.t is None or paired.p is None:
        return Joint(reason=paired.reason)
    if runs.t is None or runs.degrees is None or runs.p is None:
        return Joint(reason=runs.reason)
    if paired.t * runs.t < 0:
        return Joint(reason="image scores and corpus scores point in opposite directions")
    if paired.t * runs.t == 0:
        return Joint(t=0.0, degrees=runs.degrees, p=1.0)
    from scipy import stats

    # Squared standard errors in units of the squared difference.
    images, trainings = paired.t**-2, runs.t**-2
    t = (images + trainings) ** -0.5
    degrees = (images + trainings) ** 2 / (images**2 / (paired.images - 1) + trainings**2 / runs.degrees)
    p_joint = float(2 * stats.t.sf(t, degrees))
    return Joint(t=t if runs.t > 0 else -t, degrees=degrees, p=max(p_joint, paired.p, runs.p))


def compare_rows(
    metric: str,
    *,
    baseline_images: Sequence[float],
    images: Sequence[float],
    baseline_runs: Sequence[float],
    runs: Sequence[float],
    higher_is_better: bool = True,
) -> dict[str, Any]:
    """Test one metric of a row against the baseline row.

    Args:
        metric: its name; in the tests, a BLEU below 0.001 counts as 0.
        baseline_images, images: scores ``[images]``, averaged over the runs, in one order.
        baseline_runs, runs: corpus scores ``[runs]``; the rows may have different numbers of runs.
        higher_is_better: whether a larger value of the metric is better.

    Returns:
        ``difference`` of the mean corpus scores and the tests ``paired``, ``welch`` and ``joint``.
    """
    paired = compare_paired(_tested(metric, baseline_images), _tested(metric, images))
    over_runs = welch(_tested(metric, baseline_runs), _tested(metric, runs))
    return {
        "difference": fmean(runs) - fmean(baseline_runs),
        "paired": asdict(paired),
        "welch": asdict(over_runs),
        "joint": asdict(compare_jointly(paired, over_runs)),
        "mark": 0,
        "reason": None,
        # Only where it is true, so that files written before such metrics are unchanged.
        **({} if higher_is_better else {"lower_is_better": True}),
    }


def no_comparison(reason: str, difference: float | None = None) -> dict[str, Any]:
    """Return the comparison of a row without a test: it or its baseline lacks the metric, or scores per image."""
    return {"difference": difference, "paired": None, "welch": None, "joint": None, "mark": 0, "reason": reason}


def correct(comparisons: Sequence[dict[str, Any]], *, units: Sequence[str] = tuple(UNITS)) -> dict[str, int]:
    """Add Holm's p to every kind of test of one family of comparisons, then ``mark`` the significant ones.

    Args:
        comparisons: made by :func:`compare_rows`; changed in place.
        units: a difference is marked if it is significant in all of them; tables use all, which takes two runs a row.

    Returns:
        Kind of test -> number of comparisons that allow it.
    """
    counts = {}
    for test, key in (("paired", "p"), ("paired", "p_wilcoxon"), ("welch", "p"), ("joint", "p")):
        p_values = [comparison[test][key] for comparison in comparisons]
        for comparison, adjusted in zip(comparisons, holm(p_values), strict=True):
            comparison[test][f"{key}_holm"] = adjusted
        counts[f"{test}.{key}"] = sum(p is not None for p in p_values)
    for comparison in comparisons:
        comparison["mark"] = _mark(comparison, units)
    return counts


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return Holm's step-down adjusted p-values in the order given.

    Args:
        p_values: the family's p-values; None marks a test without a value; it stays None and is not counted.

    Returns:
        For the k-th smallest of m: the running maximum of ``(m - k + 1) * p``, at most 1.

    Raises:
        ValueError: a p-value is not between 0 and 1.
    """
    made = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    if any(not 0 <= p <= 1 for p, _ in made):
        raise ValueError("a p-value must be between 0 and 1")
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(made):
        largest = max(largest, min(1.0, (len(made) - rank) * p))
        adjusted[index] = largest
    return adjusted


def _mark(comparison: dict[str, Any], units: Sequence[str]) -> int:
    """Return 1 or -1 where a row is significantly better or worse than the baseline, else 0.

    Not marked if the mean image score and the corpus score differ in opposite directions, as BLEU and METEOR can.
    """
    adjusted = [comparison[UNITS[unit]]["p_holm"] for unit in units]
    if any(p is None or p >= SIGNIFICANT for p in adjusted):
        return 0
    difference = comparison["difference"]
    if comparison["paired"]["mean_difference"] * difference <= 0:
        return 0
    better = difference < 0 if comparison.get("lower_is_better") else difference > 0
    return 1 if better else -1


def _tested(metric: str, values: Sequence[float]) -> list[float]:
    """Return the scores for the tests, with small BLEU as 0."""
    if not metric.startswith("BLEU"):
        return list(values)
    scores = np.asarray(values, np.float64)
    return np.where(scores < _BLEU_FLOOR, 0.0, scores).tolist()
