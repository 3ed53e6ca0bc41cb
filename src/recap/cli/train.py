"""``recap train`` and ``recap evaluate``: one stage of one run."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments, chosen, paths, spec
from recap.core.gpus import claim


def add_train(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""

    def train(a: Arguments) -> None:
        become_processes(a.spec)
        from recap.training.job import train as run

        run(**chosen(a, "stage spec corpus vocabulary subset features init state out"))

    parser.add_argument("--stage", choices=["xe", "scst"], required=True)
    spec(parser)
    paths(parser, "corpus", "vocabulary", "subset", "features", "state", "out")
    parser.add_argument("--init", type=Path, help="run folder whose weights are the start")
    parser.set_defaults(function=train)


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""

    def evaluate(a: Arguments) -> None:
        claim(a.spec.get("device", "auto"))
        from recap.training.evaluation import evaluate as run

        run(**chosen(a, "spec corpus vocabulary features model out"))

    spec(parser)
    paths(parser, "corpus", "vocabulary", "features", "out")
    parser.add_argument("--model", type=Path, nargs="+", required=True, help="run folder; several are an ensemble")
    parser.set_defaults(function=evaluate)


def become_processes(spec: dict[str, Any]) -> None:
    """Take the GPUs of a training; where its spec wants several processes, become the torchrun that starts them."""
    if "WORLD_SIZE" in os.environ:  # one of those processes
        return
    processes = spec.get("processes", 1)
    claim(spec.get("device", "auto"), processes)
    if processes > 1:
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        os.execv(sys.executable, [sys.executable, *torchrun, "-m", "recap", *sys.argv[1:]])
