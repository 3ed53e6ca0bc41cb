"""COCO-sized work, stage by stage: CPU seconds and peak memory at three sizes, and how they grow.

python -m benchmarks.coco_sized [--images 1000 10000 113287] [--captions annotations.zip] [--folder
DIR] [--only STAGE]

Each stage is a process of its own and prints one JSON line: CPU seconds (user, system, children) of
its part and of the process, which also imports and reads what the part needs, and peak memory.
`exponent` is over three sizes.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import coco_results, coco_stages
from benchmarks.coco_captions import Sentences, write_dataset

STAGES = {**coco_stages.STAGES, **coco_results.STAGES}


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of the children that it has waited for."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def memory_mb() -> dict[str, int]:
    """Return the process's peak, what it holds now without mapped files,
    and the peak of its largest child."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    # Not of getrusage: it has the peak of the program that started this one, too.
    peak, held = (int(lines[name].split()[0]) // 1024 for name in ("VmHWM", "RssAnon"))
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    return {"peak_mb": peak, "held_mb": held, "child_mb": child}


def run_stage(name: str, folder: Path) -> dict[str, Any]:
    """Run a stage in this process."""
    spent: list[float] = []

    @contextmanager
    def part() -> Iterator[None]:
        start = cpu_seconds()
        yield
        spent.append(cpu_seconds() - start)

    items = STAGES[name](folder, part)
    known = {"name": name, "items": items, "cpu_seconds": round(sum(spent), 3)}
    return {**known, "process_seconds": round(cpu_seconds(), 2), **memory_mb()}


def apart(name: str, folder: Path) -> dict[str, Any]:
    """Run a stage in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.coco_sized",
        "--stage",
        name,
        "--folder",
        str(folder),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def exponent(sizes: list[dict[str, Any]]) -> float | None:
    """Return how CPU seconds grow with the number of items,
    what the smallest size takes (imports, start) taken off.

    None unless there are three sizes that take so long that the clock can tell them.
    """
    if len(sizes) != 3:
        return None
    first, *others = sizes
    seconds, items = (
        [each[key] - first[key] for each in others] for key in ("cpu_seconds", "items")
    )
    if seconds[0] < 0.05:
        return None
    return round(math.log(seconds[1] / seconds[0]) / math.log(items[1] / items[0]), 2)


def main() -> None:
    """Print one JSON line a stage and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--images", type=int, nargs="+", default=[1_000, 10_000, 113_287], help=("training images")
    )
    parser.add_argument(
        "--captions", type=Path, help=("zip of COCO's annotations, whose sentences are the pool")
    )
    parser.add_argument(
        "--folder", type=Path, help=("where to keep what is made; by default it is removed")
    )
    parser.add_argument("--only", nargs="+", choices=list(STAGES), default=list(STAGES))
    parser.add_argument("--stage", choices=list(STAGES), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.stage:
        print(json.dumps(run_stage(asked.stage, asked.folder)))
        return
    with tempfile.TemporaryDirectory() as made:
        root = asked.folder or Path(made)
        known: dict[str, list[dict[str, Any]]] = {}
        for images in asked.images:
            folder = root / str(images)
            if not (folder / "images.zip").is_file():
                folder.mkdir(parents=True, exist_ok=True)
                sentences = (
                    Sentences.of_coco(asked.captions) if asked.captions else Sentences.invented()
                )
                write_dataset(folder, images, sentences)
            for name in asked.only:
                found = apart(name, folder)
                known.setdefault(name, []).append(found)
                print(
                    json.dumps({"images": images, **found, "exponent": exponent(known[name])}),
                    flush=True,
                )


if __name__ == "__main__":
    main()
