"""How a figure is measured: ours and the reference alternate in one run, medians are reported."""

from __future__ import annotations

import json
import os
import resource
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
    return clocks(function)[0]


def clocks(function: Callable[[], object]) -> tuple[float, float]:
    """Return wall-clock and processor seconds of one call,
    those of programs that it starts and waits for with them."""
    start, processor = time.perf_counter(), _processor_seconds()
    function()
    return time.perf_counter() - start, _processor_seconds() - processor


def _processor_seconds() -> float:
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + others.ru_utime + others.ru_stime


def measure(case: Case, rounds: int) -> dict[str, object]:
    """Return the figure as a mapping for one JSON line."""
    case.ours()  # the reference, which takes seconds, was run once to compare results
    times = [(*clocks(case.ours), *clocks(case.reference)) for _ in range(rounds)]
    mine, my_cpu, theirs, their_cpu = (
        statistics.median(column) for column in zip(*times, strict=True)
    )
    # within rounds: what else runs slows both sides of one
    ratios = [their / my for _, my, _, their in times]
    return {
        "name": case.name,
        "seconds": round(mine, 6),
        "reference_seconds": round(theirs, 6),
        "ratio": round(theirs / mine, 2),
        "cpu_seconds": [round(my_cpu, 6), round(their_cpu, 6)],
        "cpu_ratio": round(statistics.median(ratios), 2),
        "cpu_ratio_range": [round(min(ratios), 2), round(max(ratios), 2)],
        "shapes": case.shapes,
        "agreement": case.agreement,
        **machine(),
        **case.more(),
    }


def machine() -> dict[str, object]:
    """Return where this runs; the load tells how much others computed beside it."""
    return {
        "threads": torch.get_num_threads(),
        "device": ("cpu"),
        "load": round(os.getloadavg()[0], 1),
    }


def product_rate(rows: int = 2500, width: int = 512) -> float:
    """Return the float32 rate of a large product on this machine now,
    in operations a second of one processor."""
    a, b = torch.randn(rows, width), torch.randn(width, width)
    a @ b
    return 2 * rows * width * width / statistics.median(clocks(lambda: a @ b)[1] for _ in range(20))


def show(figure: dict[str, object]) -> None:
    """Print one JSON line."""
    print(json.dumps(figure), flush=True)
