"""Rectified Adam (Liu et al. 2020) in one pass over weights and moments.

A step of RAdam is one of Adam with another rate and another epsilon. With bias corrections c1, c2 of the moments m, v
and the rectification r:

    RAdam, once v is trusted    lr r (m / c1) sqrt(c2) / (sqrt(v) + eps)
    before (the first steps)    lr (m / c1)
    Adam                        lr' (m / c1) / (sqrt(v / c2) + eps')      lr' = lr r,  eps' = eps / sqrt(c2)
                                                                          or lr' = lr E,  eps' = E, which outweighs v

torch's Adam has a fused form; torch's RAdam makes about ten passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

TRUSTED_LENGTH = 5.0  # of the average behind the second moment, rho_t: the update is rectified above it
OUTWEIGHS = 2.0**60  # E: a power of two, so that the quotient has the bits of m


class RAdam(torch.optim.Adam):
    """torch's RAdam, equal up to rounding; each group counts its `steps`, which its state dict holds."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step, as `torch.optim.RAdam.step`."""
        given = [(group["lr"], group["eps"]) for group in self.param_groups]
        for group in self.param_groups:
            group["steps"] = group.get("steps", 0) + 1
            group["lr"], group["eps"] = as_adam(group["lr"], group["eps"], group["betas"][1], group["steps"])
        try:
            return super().step(closure)
        finally:
            for group, (rate, epsilon) in zip(self.param_groups, given, strict=True):
                group["lr"], group["eps"] = rate, epsilon


def as_adam(rate: float, epsilon: float, beta2: float, step: int) -> tuple[float, float]:
    """Return the rate and the epsilon with which Adam takes RAdam's step, counted from 1."""
    correction = 1 - beta2**step
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * step * beta2**step / correction
    if length <= TRUSTED_LENGTH:
        return rate * OUTWEIGHS, OUTWEIGHS
    rectification = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    return rate * math.sqrt(rectification), epsilon / math.sqrt(correction)
