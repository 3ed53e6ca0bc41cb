"""Corrections for multiple tests."""

from __future__ import annotations

from collections.abc import Sequence


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
