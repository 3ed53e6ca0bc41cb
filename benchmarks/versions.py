"""Steps and searches of this clone beside those of another commit,
and beside plain torch (`RECAP_FAST=0`).

    git clone . /tmp/other && git -C /tmp/other checkout COMMIT
    python -m benchmarks.versions xe.transformer beam.xlan --other /tmp/other

Each side is a process with one thread, which waits for its turn. Rounds alternate. A line gives CPU
seconds of a side (medians) and the ratios other / this and plain / this (medians and ranges within
rounds): above 1, this is faster.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.figures import machine, show
from benchmarks.shapes import FEATURES, LENGTH, WORDS, batch, captions

ROOT = Path(__file__).parent.parent
# models and images; X-Transformer and VisualGPT have fewer layers,
# so that three sides fit the memory
SIZES = {
    "transformer": ({}, 5),
    "m2": ({}, 3),
    "xlan": ({}, 2),
    "x_transformer": ({"encoder_layers": 2, "decoder_layers": 2}, 2),
    "acf": ({}, 3),
    "zodiac": ({}, 2),
    "fusion": ({}, 3),
}
DEMO = {
    "d_model": 128,
    "d_feed_forward": 256,
    "heads": 4,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "dropout": 0.1,
}


def figure(name: str) -> Callable[[], object]:
    """Return the step or search of a name such as `xe.xlan`.

    `demo.transformer` is a step of the demo's sizes.
    """
    from benchmarks.beam import search
    from benchmarks.step import learner
    from helpers.model_cases import build_model
    from recap.models.images import Images, InputSpec, Stream
    from recap.settings import CrossEntropy, SelfCritical
    from recap.training.objectives import CrossEntropyObjective, SelfCriticalObjective
    from recap.training.optim import build_optimizer

    torch.manual_seed(0)
    work, kind = name.split(".")
    sizes, images = (DEMO, 12) if work == "demo" else SIZES[kind]
    data, words, width = batch(images), WORDS, FEATURES
    regions = data.images.main
    if kind == "fusion":
        corners = torch.rand(images, regions.values.shape[1], 2).repeat(1, 1, 2) * 300
        boxes = corners + torch.tensor([0.0, 0.0, 100.0, 50.0])
        region = Stream(regions.values, regions.mask, boxes, torch.full((images, 2), 640.0))
        cells = Stream(torch.randn(images, 49, width), torch.ones(images, 49, dtype=torch.bool))
        data = replace(data, images=Images({"grid": cells, "region": region}))
    elif kind == "acf" or work == "demo":
        words, width = (97, 64) if work == "demo" else (WORDS, FEATURES)
        cells = torch.randn(images, 36 if work == "demo" else 144, width)
        data = replace(data, images=Images.of(cells, torch.ones(cells.shape[:2], dtype=torch.bool)))
        data = replace(
            data, tokens=data.tokens.where(data.tokens < words, 3 + data.tokens % (words - 3))
        )
    names = data.images.streams
    model = build_model({"kind": kind, **sizes}, InputSpec(dict.fromkeys(names, width), words))
    if work == "beam":
        return search(model.eval(), images=images, beam=3, given=data.images)
    if work == "scst":
        stage = SelfCritical(epochs=1, learning_rate=1e-6, baseline="greedy")
        objective = SelfCriticalObjective(
            model, stage, references=captions(seed=2, images=images), max_length=LENGTH
        )
    else:
        stage = CrossEntropy(epochs=1, learning_rate=1e-5)
        objective = CrossEntropyObjective(model, stage)
    return learner(
        model, build_optimizer(model.parameters(), stage), stage, lambda: objective(data).loss
    )


class Side:
    """A process that takes a step when it is told to, and says how many CPU seconds it took."""

    def __init__(self, name: str, clone: Path, fast: str) -> None:
        path = os.pathsep.join(str(part) for part in (clone / "src", ROOT, ROOT / "tests"))
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "RECAP_FAST": fast}
        command = [sys.executable, "-P", "-m", "benchmarks.versions", name, "--worker"]
        self._process = subprocess.Popen(
            command,
            env=environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self) -> float:
        """Take a step."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def work(name: str) -> None:
    """Take a step for each line of the input."""
    torch.set_num_threads(1)
    run = figure(name)
    for _ in sys.stdin:
        start = time.process_time()
        run()
        print(time.process_time() - start, flush=True)


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "figures",
        nargs="+",
        help="xe, scst or beam, a point, and a kind; demo.transformer, demo.acf",
    )
    parser.add_argument("--other", type=Path, help="a clone at another commit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments.figures[0])
    for name in arguments.figures:
        sides = {"this": Side(name, ROOT, "1"), "plain": Side(name, ROOT, "0")}
        if arguments.other:
            sides["other"] = Side(name, arguments.other.resolve(), "1")
        times = []
        for number in range(arguments.rounds + 1):
            # none is always the first
            order = [*sides][number % len(sides) :] + [*sides][: number % len(sides)]
            times.append({side: sides[side].seconds() for side in order})
        del times[0]  # memory and kernels are new there
        for process in sides.values():
            process.close()
        found: dict[str, object] = {
            "name": name,
            "processor": torch.backends.cpu.get_cpu_capability(),
            **machine(),
        }
        found["cpu_seconds"] = {
            side: round(statistics.median(row[side] for row in times), 3) for side in sides
        }
        for side in [*sides][1:]:
            ratios = sorted(row[side] / row["this"] for row in times)
            found[f"{side} / this"] = [
                round(x, 2) for x in (statistics.median(ratios), ratios[0], ratios[-1])
            ]
        show(found)
    return None


if __name__ == "__main__":
    main()
