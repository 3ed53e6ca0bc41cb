"""Float32 or bfloat16: the context of a step in either, and whether a processor has units for bfloat16 at all.

For that a product of two matrices in it is timed against one in float32.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from recap.core.log import log

if TYPE_CHECKING:
    import torch

GAIN = 1.1  # bf16 is chosen if float32 takes at least so many times as long
KINDS = ("float32", "bf16")
ROUNDS = 3
EDGE = 512  # of the matrices: the widths of layers, 270 M operations


def mixed(kind: str, device: torch.device) -> torch.autocast:
    """Return the context in which products are taken in 'bf16', or in which 'float32' is left as it is."""
    import torch

    return torch.autocast(device.type, torch.bfloat16, enabled=kind == "bf16")


def precision_here(asked: str, device: torch.device) -> str:
    """Return 'float32' or 'bf16': what is asked for, and for 'auto' that in which a matrix product takes less time."""
    if asked != "auto":
        return asked
    seconds = product_seconds(device)
    chosen = quicker(seconds)
    log.info(f"precision: {chosen}; {told(seconds, 'product')}")
    return chosen


def told(seconds: dict[str, float], what: str) -> str:
    """Return both times in words, of a `what`."""
    return ", ".join(f"{kind} {value:.3g} s a {what}" for kind, value in seconds.items())


def quicker(seconds: dict[str, float]) -> str:
    """Return 'bf16' if it takes clearly less time, else 'float32'."""
    return "bf16" if seconds["float32"] >= GAIN * seconds["bf16"] else "float32"


def product_seconds(device: torch.device) -> dict[str, float]:
    """Return the seconds of a matrix product in float32 and in bf16, the median of three after one that is not counted.

    Milliseconds in all where bf16 has units, half a second where it is emulated: there no training in bf16 could pay,
    and a single step of it might take a minute.
    """
    import torch

    types = dict(zip(KINDS, (torch.float32, torch.bfloat16), strict=True))
    factors = {kind: torch.ones(EDGE, EDGE, dtype=number, device=device) for kind, number in types.items()}
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(1 + ROUNDS):
        for kind, factor in factors.items():
            since = now(device)
            factor @ factor
            found[kind].append(now(device) - since)
    return {kind: median(times[1:]) for kind, times in found.items()}


def now(device: torch.device) -> float:
    """Return CPU time in seconds, which other programs hardly lengthen, or on a GPU the time when its work is done."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.process_time()
