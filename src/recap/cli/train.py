"""``recap train`` and ``recap evaluate``: one stage of one run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments, checked, chosen, paths, spec
from recap.cli.parser import Commands, command
from recap.core.gpus import claim

RUNS = {"xe": "CrossEntropyRun", "scst": "SelfCriticalRun"}


def add_train(commands: Commands) -> None:
    """Add the command."""

    def train(a: Arguments) -> None:
        settings = checked(a, RUNS[a.stage])
        _refuse_impossible(a.out)
        become_processes(settings)
        from recap.training.job import train as run

        run(spec=settings, **chosen(a, "stage corpus vocabulary subset features init state out"))

    parser = command(
        commands,
        "train",
        purpose="train one stage of one run",
        example="""
            recap train --stage xe --spec "$(cat spec.json)" --corpus corpus.parquet --vocabulary vocabulary.json \\
              --subset subset.json --features features.h5 --state work/run --out run
        """,
    )
    parser.add_argument("--stage", choices=list(RUNS), required=True, help="xe: cross-entropy; scst: self-critical")
    spec(parser, RUNS["xe"])
    paths(parser, "corpus", "vocabulary", "subset", "features")
    paths(parser, state="folder of the resumable state: the same command goes on from it", out="the run folder")
    parser.add_argument("--init", type=Path, metavar="PATH", help="run folder whose weights are the start")
    parser.set_defaults(function=train)


def add_evaluate(commands: Commands) -> None:
    """Add the command."""

    def evaluate(a: Arguments) -> None:
        settings = checked(a, "EvaluatedRun")
        _refuse_impossible(a.out)
        claim(settings["device"])
        from recap.evaluation.job import evaluate as run

        run(spec=settings, **chosen(a, "corpus vocabulary features model out"))

    parser = command(
        commands,
        "evaluate",
        purpose="decode a split and score it",
        example="""
            recap evaluate --spec '{"evaluation": {"beam": 5}, "device": "auto", "threads": 2}' \\
              --corpus corpus.parquet --vocabulary vocabulary.json --features features.h5 --model run --out scores
        """,
    )
    spec(parser, "EvaluatedRun")
    paths(parser, "corpus", "vocabulary", "features", out="folder of captions and scores")
    parser.add_argument(
        "--model", type=Path, nargs="+", required=True, metavar="PATH", help="run folder; several are an ensemble"
    )
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


def _refuse_impossible(out: Path) -> None:
    """Let whoever named a folder that cannot be made hear it now, not when hours are over; nothing is left behind."""
    if not out.is_dir():
        out.mkdir(parents=True)
        out.rmdir()
