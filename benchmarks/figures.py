"""How a figure is measured: ours and the reference alternate in one run, medians are reported."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch


@dataclass
class Case:
    """One figure: two functions that do the same work, and what they agree in."""

    name: str
    shapes: str
    ours: Callable[[], object]
    reference: Callable[[], object]
    agreement: str = "equal"
    more: Callable[[], dict[str, object]] = field(default=dict)  # measured after the timing


def seconds(function: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(case: Case, rounds: int) -> dict[str, object]:
    """Return the figure as a mapping for one JSON line."""
    case.ours()  # the reference, which takes seconds, was run once to compare results
    times = [(seconds(case.ours), seconds(case.reference)) for _ in range(rounds)]
    mine, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    return {
        "name": case.name,
        "seconds": round(mine, 6),
        "reference_seconds": round(theirs, 6),
        "ratio": round(theirs / mine, 2),
        "shapes": case.shapes,
        "agreement": case.agreement,
        **machine(),
        **case.more(),
    }


def machine() -> dict[str, object]:
    """Return where this runs; the load tells how much others computed beside it."""
    return {"threads": torch.get_num_threads(), "device": "cpu", "load": round(os.getloadavg()[0], 1)}


def product_rate(rows: int = 2500, width: int = 512) -> float:
    """Return the float32 rate of a large product on this machine now, in floating-point operations a second."""
    a, b = torch.randn(rows, width), torch.randn(width, width)
    a @ b
    return 2 * rows * width * width / statistics.median(seconds(lambda: a @ b) for _ in range(20))


def show(figure: dict[str, object]) -> None:
    """Print one JSON line."""
    print(json.dumps(figure), flush=True)
