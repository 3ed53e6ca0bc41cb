"""Test of two systems over images and over training runs at once."""

from __future__ import annotations

from dataclasses import dataclass

from recap.statistics.paired import Paired
from recap.statistics.welch import Welch


@dataclass(frozen=True)
class Joint:
    """Whether a difference holds on other images and for other trainings; None where it cannot be tested.

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
    """Combine the test over images with the test over runs, which look at one difference.

    Each of the two takes the other's chance for fixed, so both may hold by chance more often than 5 in 100 times: with
    ten seeds and equal standard errors 10 times. Together they do not (`benchmarks/table_marks.py`).
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
    alone = float(2 * stats.t.sf(t, degrees))
    return Joint(t=t if runs.t > 0 else -t, degrees=degrees, p=max(alone, paired.p, runs.p))
