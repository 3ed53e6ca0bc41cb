"""Test of two systems over their training runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


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
