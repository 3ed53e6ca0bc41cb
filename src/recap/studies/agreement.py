"""Agreement of raters: Fleiss' kappa and Krippendorff's alpha for nominal answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def agreement(ratings: Sequence[Sequence[str]], answers: Sequence[str]) -> dict[str, Any]:
    """Return how far raters agree beyond chance.

    Args:
        ratings: the answers to each item, one per rater; items may have different numbers of them.
        answers: all that may be answered.

    Returns:
        ``fleiss_kappa`` over ``fleiss_items`` items, those with the largest number of answers (it takes equal numbers);
        ``krippendorff_alpha`` over all ``items`` with two answers or more. None where an agreement by chance is
        certain (all answers equal) or no item has two answers.
    """
    import krippendorff
    from statsmodels.stats.inter_rater import fleiss_kappa

    counts = np.array([[list(given).count(answer) for answer in answers] for given in ratings if len(given) > 1])
    if not len(counts) or (counts.sum(axis=0) > 0).sum() < 2:
        return {"fleiss_kappa": None, "fleiss_items": 0, "krippendorff_alpha": None, "items": len(counts)}
    sizes = counts.sum(axis=1)
    full = counts[sizes == sizes.max()]  # [items, answers]
    varied = (full.sum(axis=0) > 0).sum() > 1
    return {
        "fleiss_kappa": float(fleiss_kappa(full)) if varied else None,
        "fleiss_items": len(full),
        "krippendorff_alpha": float(krippendorff.alpha(value_counts=counts, level_of_measurement="nominal")),
        "items": len(counts),
    }
