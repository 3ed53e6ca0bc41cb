"""Tests of two systems on the same images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Means over seeds differ by rounding in the last digits; without rounding, tied images would be ranked by noise.
_DECIMALS = 12


@dataclass(frozen=True)
class Paired:
    """Paired comparison, second minus first; None where the images do not allow a value, with the reason.

    Attributes:
        images: number of pairs.
        mean_difference: mean of the differences.
        low: lower end of the 95 % interval of the mean difference (Student's t).
        high: its upper end.
        t: statistic of the paired t-test, ``images - 1`` degrees of freedom.
        p: two-sided p of the paired t-test.
        d_z: Cohen's d_z: mean difference over the standard deviation (ddof 1) of the differences.
        p_wilcoxon: two-sided p of Wilcoxon's signed-rank test, zero differences dropped.
        reason: why a value is None.
    """

    images: int
    mean_difference: float
    low: float | None = None
    high: float | None = None
    t: float | None = None
    p: float | None = None
    d_z: float | None = None
    p_wilcoxon: float | None = None
    reason: str | None = None


def compare_paired(first: Sequence[float], second: Sequence[float]) -> Paired:
    """Compare scores ``[images]`` of two systems on the same images, in the same order.

    Raises:
        ValueError: the lengths differ, there is no image, or a score is not finite.
    """
    if len(first) != len(second) or len(first) == 0:
        raise ValueError(f"paired scores need equal lengths above 0, not {len(first)} and {len(second)}")
    differences = np.round(np.asarray(second, np.float64) - np.asarray(first, np.float64), _DECIMALS)
    if not np.isfinite(differences).all():
        raise ValueError("a score is not finite")
    count, mean = len(differences), float(differences.mean())
    if count < 2:
        return Paired(count, mean, reason="needs at least 2 images")
    if not differences.any():
        return Paired(count, 0.0, low=0.0, high=0.0, reason="all differences are zero")
    p_wilcoxon = _wilcoxon(differences)
    if np.ptp(differences) == 0:
        reason = "every image differs by the same amount"
        return Paired(count, mean, low=mean, high=mean, p_wilcoxon=p_wilcoxon, reason=reason)
    return _t_test(differences, p_wilcoxon)


def _t_test(differences: np.ndarray, p_wilcoxon: float) -> Paired:
    """Return the paired t-test of differences that vary."""
    from scipy import stats

    count, mean, deviation = len(differences), float(differences.mean()), float(differences.std(ddof=1))
    t = mean / (deviation / np.sqrt(count))
    margin = float(stats.t.ppf(0.975, count - 1)) * deviation / float(np.sqrt(count))
    return Paired(
        images=count,
        mean_difference=mean,
        low=mean - margin,
        high=mean + margin,
        t=float(t),
        p=float(2 * stats.t.sf(abs(t), count - 1)),
        d_z=mean / deviation,
        p_wilcoxon=p_wilcoxon,
    )


def _wilcoxon(differences: np.ndarray) -> float:
    """Return the p of the signed-rank test; exact for up to 50 differences without ties, else normal."""
    from scipy import stats

    return float(stats.wilcoxon(differences[differences != 0]).pvalue)
