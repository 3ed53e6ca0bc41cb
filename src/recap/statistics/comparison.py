"""Comparison of two rows on one metric: the tests, their correction over a table, and the marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

import numpy as np

from recap.statistics.corrections import holm
from recap.statistics.joint import compare_jointly
from recap.statistics.paired import compare_paired
from recap.statistics.welch import welch

SIGNIFICANT = 0.05
# Units of a table's tests: name -> key of the test in a comparison.
UNITS = {"images": "paired", "runs": "welch", "both": "joint"}
# pycocoevalcap's BLEU is never 0: without a common 4-gram, BLEU-4 is up to 1.8e-4, which grows as the caption shrinks.
_BLEU_FLOOR = 1e-3


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
