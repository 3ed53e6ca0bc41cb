"""How many seeds it takes until a difference is marked, estimated from the runs of a table."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, variance
from typing import Any

from recap.statistics.comparison import SIGNIFICANT

POWER = 0.8
MOST = 100  # seeds
_METRIC = "CIDEr"  # of a table that has it; else its first column with an unmarked difference


def seeds_needed(rows: Sequence[dict[str, Any]], *, comparisons: int) -> dict[str, Any] | None:
    """Return how many seeds would mark the largest unmarked difference of one metric.

    Args:
        rows: described rows of a table, compared and marked.
        comparisons: number of comparisons in the family, for Holm's correction.

    Returns:
        ``metric``, ``row`` (its label), ``difference`` and ``seeds`` (None: more than ``MOST``); None where every
        difference is marked, or no row has several runs that differ.
    """
    metrics = list(rows[0]["cells"])
    for metric in sorted(metrics, key=lambda name: (name != _METRIC, metrics.index(name))):
        cells = [(row["label"], row["cells"][metric]) for row in rows]
        runs = [list(cell["values"].values()) for _, cell in cells if cell["n"] > 1]
        open_ = [(label, cell["comparison"]) for label, cell in cells if _is_open(cell["comparison"])]
        # Rows share their spread: that of one row's few runs says little.
        spread = fmean(variance(values) for values in runs) if runs else 0.0
        if not open_ or not spread:
            continue
        label, largest = max(open_, key=lambda found: abs(found[1]["difference"]))
        seeds = _seeds(largest, spread, SIGNIFICANT / comparisons, more_than=max(map(len, runs)))
        return {"metric": metric, "row": label, "difference": largest["difference"], "seeds": seeds}
    return None


def least_difference(seeds: int, *, comparisons: int) -> float:
    """Return the true difference that Welch's test finds with 80 % power, in standard deviations of one run."""
    from scipy import optimize

    level = SIGNIFICANT / comparisons
    found = optimize.brentq(lambda size: _power(size * (seeds / 2) ** 0.5, 2 * seeds - 2, level) - POWER, 0.01, 1e4)
    return float(found)


def _is_open(comparison: dict[str, Any] | None) -> bool:
    """Return whether a comparison has errors over images and over runs, and no mark (an ensemble is one run)."""
    if comparison is None or comparison["paired"] is None or comparison["mark"]:
        return False
    return bool(comparison["paired"]["t"] and comparison["welch"]["t"])


def _seeds(comparison: dict[str, Any], spread: float, level: float, *, more_than: int) -> int | None:
    """Return the least number of seeds above those that were not enough with which all three tests have 80 % power.

    Squared standard errors are in units of the squared difference, as in the joint test; that over images stays as
    it is, though part of it shrinks with more seeds.
    """
    paired, difference = comparison["paired"], comparison["difference"]
    images, degrees_images = paired["t"] ** -2, paired["images"] - 1
    if _power(images**-0.5, degrees_images, level) < POWER:
        return None
    for seeds in range(more_than + 1, MOST + 1):
        trainings, degrees = 2 * spread / seeds / difference**2, 2 * seeds - 2
        both = images + trainings
        degrees_both = both**2 / (images**2 / degrees_images + trainings**2 / degrees)
        if min(_power(trainings**-0.5, degrees, level), _power(both**-0.5, degrees_both, level)) >= POWER:
            return seeds
    return None


def _power(size: float, degrees: float, level: float) -> float:
    """Return the power of a two-sided t-test for a true difference of ``size`` standard errors."""
    from scipy import stats

    return float(stats.nct.sf(stats.t.isf(level / 2, degrees), degrees, size))
