"""A step and a beam search of other models beside the Transformer
of the same size: what their mechanisms cost.

``reference`` is the Transformer here, so a ratio below 1 says that the model is slower. The Fusion
Transformer stands beside the Transformer on the same two streams joined; both have 3+3 post-norm
layers.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks import beam
from benchmarks.figures import Case
from benchmarks.shapes import CAPTIONS, FEATURES, IMAGES, LENGTH, REGIONS, WORDS, batch
from benchmarks.step import Step
from benchmarks.train import update
from helpers.model_cases import build_model
from recap.models.base import Captioner
from recap.models.images import Images, InputSpec, Stream
from recap.settings import CrossEntropy
from recap.training.batches import Batch
from recap.training.objectives import CrossEntropyObjective
from recap.training.optim import build_optimizer, clip_gradients

CELLS = 49
SMALL = {"encoder_layers": 3, "decoder_layers": 3, "dropout": 0.1, "feature_dropout": 0.1}
CONFIGS = {
    "fusion": {"kind": "fusion", **SMALL},
    "joined_transformer": {"kind": "joined_transformer", "norm": "post", **SMALL},
    "zodiac": {"kind": "zodiac"},
    "transformer": {"kind": "transformer"},
}
BESIDE = {"fusion": "joined_transformer", "zodiac": "transformer"}


def inputs(kind: str) -> InputSpec:
    """Return the widths of what a model reads."""
    names = ("region",) if kind in ("zodiac", "transformer") else ("grid", "region")
    return InputSpec(dict.fromkeys(names, FEATURES), WORDS)


def data() -> Batch:
    """Return random regions with boxes, cells and captions of the images that all figures share."""
    generator = torch.Generator().manual_seed(3)
    regions, whole = batch(), torch.ones(IMAGES, CELLS, dtype=torch.bool)
    low, sides = (torch.rand(IMAGES, REGIONS, 2, generator=generator) * 300 for _ in range(2))
    boxes, sizes = torch.cat([low, low + sides], -1), torch.full((IMAGES, 2), 640.0)
    region = Stream(regions.images.main.values, regions.images.main.mask, boxes, sizes)
    grid = Stream(torch.randn(IMAGES, CELLS, FEATURES, generator=generator), whole)
    return replace(regions, images=Images({"region": region, "grid": grid}))


def model(kind: str) -> Captioner:
    """Return a model of the papers' size with random weights."""
    torch.manual_seed(0)
    return build_model(CONFIGS[kind], inputs(kind))


def step(kind: str) -> Step:
    """Return a cross-entropy step: forward, backward, clipping, Adam."""
    stage, own, images = CrossEntropy(epochs=1, learning_rate=1e-5), model(kind), data()
    objective = CrossEntropyObjective(own, stage)
    optimizer = build_optimizer(own.parameters(), stage)
    return update(
        lambda: objective(images).loss, optimizer, lambda: clip_gradients(own.parameters(), stage)
    )


def peak_megabytes(kind: str) -> int:
    """Return the peak memory of a process that takes three steps,
    less what it had before it built the model."""
    found = subprocess.run(
        [sys.executable, "-m", "benchmarks.beside", kind],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(found.stdout.split()[-1])


def xe(kind: str) -> Case:
    """Compare cross-entropy steps, and the memory of each in a process of its own."""
    other = BESIDE[kind]

    def memory() -> dict[str, object]:
        return {"peak_megabytes": {name: peak_megabytes(name) for name in (kind, other)}}

    shapes = (
        f"{IMAGES} images x {CAPTIONS}, {REGIONS} "
        f"regions{f' and {CELLS} cells' if kind == 'fusion' else ''}"
    )
    return Case(
        f"xe.{kind}.beside.{other}", shapes, step(kind), step(other), "other models", memory
    )


def search(kind: str) -> Case:
    """Compare beam searches."""
    other = BESIDE[kind]
    runs = [beam.search(model(name).eval(), given=data().images) for name in (kind, other)]
    return Case(f"beam.{kind}.beside.{other}", f"beam 5, {LENGTH} words", *runs, "other models")


def main() -> None:
    """Print the peak memory of three steps of a model in megabytes."""
    before = peak()
    run = step(sys.argv[1])
    for _ in range(3):
        run()
    print((peak() - before) // 1024)


def peak() -> int:
    """Return this process's peak memory in kilobytes.

    `getrusage` tells that of its parent, if that was more.
    """
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0])


if __name__ == "__main__":
    main()
