"""``make bench``: one JSON line a figure; ours and the reference alternate in one run, medians are reported."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator

import torch

from benchmarks import beam, features, reward

Case = tuple[str, str, Callable[[], object], Callable[[], object]]  # name, shapes, ours, reference


def cases() -> Iterator[Case]:
    """All benchmarks; each checks that ours and the reference agree before it is timed."""
    yield reward.cider_d()
    yield beam.transformer()
    yield features.random_batch()


def seconds(function: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main(rounds: int = 5) -> None:
    """Print the figures."""
    for name, shapes, ours, reference in cases():
        ours(), reference()
        times = [(seconds(ours), seconds(reference)) for _ in range(rounds)]
        mine, theirs = (statistics.median(column) for column in zip(*times, strict=True))
        figure = {
            "name": name,
            "seconds": round(mine, 6),
            "reference_seconds": round(theirs, 6),
            "ratio": round(theirs / mine, 2),
            "shapes": shapes,
            "threads": torch.get_num_threads(),
            "device": "cpu",
        }
        print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()
