"""A read-only table of 64-bit keys that answers thousands of look-ups in a few array operations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads neighboring keys


class HashTable:
    """Open addressing with linear probing, a quarter to a half full.

    Args:
        keys: distinct keys [M]; a look-up gives the place of a key in this array.
    """

    def __init__(self, keys: Keys) -> None:
        bits = max(2, int(2 * max(1, len(keys)) - 1).bit_length() + 1)
        self._shift = np.uint64(64 - bits)
        self._size = 1 << bits
        self._keys = np.append(keys, np.uint64(0))  # the last one marks an empty slot
        self._slots = np.full(self._size, len(keys), np.int32)
        waiting, at = np.arange(len(keys)), self._home(keys)
        while len(waiting):
            free = np.nonzero(self._slots[at] == len(keys))[0]
            self._slots[at[free]] = waiting[free]  # of two in one slot, the last stays
            left = self._slots[at] != waiting
            waiting, at = waiting[left], (at[left] + 1) % self._size

    def _home(self, keys: Keys) -> NDArray[np.int64]:
        return ((keys * _MIX) >> self._shift).astype(np.int64)

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """Return the place of each key, -1 where it is not in the table."""
        absent = len(self._keys) - 1
        at = self._home(keys)
        found = self._slots[at].astype(np.int64)
        open_ = np.nonzero((self._keys[found] != keys) & (found != absent))[0]
        while len(open_):
            at[open_] = (at[open_] + 1) % self._size
            found[open_] = self._slots[at[open_]]
            there = found[open_]
            open_ = open_[(self._keys[there] != keys[open_]) & (there != absent)]
        found[found == absent] = -1
        return found
