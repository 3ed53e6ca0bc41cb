"""Random numbers that depend on a seed and a purpose, never on call order or Python version."""

from __future__ import annotations

import hashlib

import numpy as np


def derived_seed(seed: int, *purpose: str | int) -> int:
    """Return a 63-bit seed for one purpose, e.g. ``derived_seed(1, "shuffle", epoch)``."""
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """Return a numpy generator for one purpose (PCG64, whose stream numpy keeps stable)."""
    return np.random.Generator(np.random.PCG64(derived_seed(seed, *purpose)))
