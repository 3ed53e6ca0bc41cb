"""The order in which ids enter growing subsets, equal on every Python version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from fractions import Fraction

import numpy as np


def rank(ids: Iterable[int], *, dataset: str, unit: str, seed: int) -> list[int]:
    """Return ids in the order in which they enter growing subsets: by the sha256 of who they are."""
    numbers = np.unique(np.fromiter(ids, np.int64))
    ranked: list[int] = numbers[_order(numbers, f"{dataset}/{unit}/{seed}/")].tolist()
    return ranked


def _order(numbers: np.ndarray, prefix: str) -> np.ndarray:
    """Return the order of rising numbers by sha256 of prefix and number, in 40 bytes a number."""
    start = hashlib.sha256(prefix.encode())
    keys = np.empty((len(numbers), 4), ">u8")
    for row, number in enumerate(numbers.tolist()):
        digest = start.copy()
        digest.update(str(number).encode())
        keys[row] = np.frombuffer(digest.digest(), ">u8")
    # lexsort takes the most important key last; it is stable, so equal hashes would stay in the order of numbers.
    return np.lexsort(keys.T[::-1])


def subset_size(total: int, fraction: float) -> int:
    """Return how many of ``total`` a fraction is, halves rounded up, exactly as the fraction is written."""
    return int(Fraction(str(fraction)) * total + Fraction(1, 2))
