"""Percentile intervals of the mean score over images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recap.core.hashing import generator

RESAMPLES = 2_000
LEVEL = 0.95
_BATCH = 100  # resamples in memory at a time


def percentile_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % bootstrap percentile interval of the mean of ``[images]``, the same on every call.

    None where there are fewer than two images.
    """
    if len(values) < 2:
        return None
    from scipy import stats

    found = stats.bootstrap(
        (np.asarray(values, np.float64),),
        np.mean,
        n_resamples=RESAMPLES,
        batch=_BATCH,
        confidence_level=LEVEL,
        method="percentile",
        random_state=generator(0, "percentile interval"),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)
