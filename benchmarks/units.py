"""One t-test in three units: over runs, over images, and over all pairs of a run and an image.

A paper that prints p beside means of several runs and does not say what its test compared may mean
any of these. Over runs (Welch) p says whether another training would differ again; over images,
each with its mean over runs, whether other images would; over all pairs, as if images of a run were
independent trials, it says neither and is smallest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recap.statistics.comparison import Paired, TTest, compare_paired, welch

UNITS = ("runs", "images", "pairs")


@dataclass(frozen=True)
class InUnits:
    """The same comparison, second minus first, in each unit."""

    runs: TTest
    images: Paired
    pairs: Paired


def compare_in_units(first: np.ndarray, second: np.ndarray) -> InUnits:
    """Compare scores of two systems, each [runs, images] on the same images in the same order.

    A run's score is the mean of its images; run i of one system stands beside run i of the other in
    a pair.

    Raises:
        ValueError: the shapes differ, or there is nothing to compare.
    """
    if first.shape != second.shape or first.ndim != 2 or not first.size:
        raise ValueError(
            f"scores of runs and images need equal shapes, not {first.shape} and {second.shape}"
        )
    return InUnits(
        runs=welch(first.mean(1).tolist(), second.mean(1).tolist()),
        images=compare_paired(first.mean(0).tolist(), second.mean(0).tolist()),
        pairs=compare_paired(first.ravel().tolist(), second.ravel().tolist()),
    )


def implied_deviation(difference: float, p: float, *, unit: str, runs: int, images: int) -> float:
    """Return the standard deviation with which a two-sided t-test would give a printed p.

    Of differences between two systems on one image (`images`, `pairs`), or of the scores of one
    system's runs, taken as equal for both (`runs`); in the unit of the difference.

    Args:
        difference: of the printed means, not 0.
        p: printed, above 0 and below 1.
        unit: one of UNITS.
        runs: of each system.
        images: of the test split.

    Raises:
        ValueError: an unknown unit, or p is no probability.
    """
    from scipy import stats

    if unit not in UNITS or not 0 < p < 1:
        raise ValueError(f"no test over {unit!r} gives p {p}; units are {', '.join(UNITS)}")
    if unit == "runs":
        return abs(difference) / float(stats.t.isf(p / 2, 2 * runs - 2)) / (2 / runs) ** 0.5
    count = images if unit == "images" else runs * images
    return abs(difference) / float(stats.t.isf(p / 2, count - 1)) * count**0.5
