"""``recap train`` and ``recap evaluate``: one stage of one run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from recap.cli.arguments import Arguments, add_execution, chosen, given_execution, paths, spec, typed
from recap.cli.parser import Commands, command
from recap.core.gpus import claim

if TYPE_CHECKING:
    from recap.core.config import Execution, RunSpec


def add_train(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "train",
        purpose="train one stage of one run",
        example="""
            recap train --spec spec.json --corpus corpus.parquet --vocabulary vocabulary.json \\
              --subset subset.json --features features.h5 --state work/run --out run
        """,
    )
    spec(parser, "RunSpec")
    add_execution(parser)
    paths(parser, "corpus", "vocabulary", "subset", "features")
    paths(parser, state="folder of the resumable state: the same command goes on from it", out="the run folder")
    parser.add_argument("--init", type=Path, metavar="PATH", help="run folder whose weights are the start")
    parser.set_defaults(function=train)


def train(a: Arguments) -> None:
    """Train one stage."""
    settings, execution = typed(a, "RunSpec"), given_execution(a)
    _refuse_impossible(a.out)
    become_processes(settings, execution)
    from recap.training.job import train as run

    run(spec=settings, execution=execution, **chosen(a, "corpus vocabulary subset features init state out"))


def add_evaluate(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "evaluate",
        purpose="decode a split and score it",
        example="""
            recap evaluate --spec '{"evaluation": {"beam": 5}}' --corpus corpus.parquet --vocabulary vocabulary.json \\
              --features features.h5 --model run --out scores
        """,
    )
    spec(parser, "EvaluationSpec")
    add_execution(parser)
    paths(parser, "corpus", "vocabulary", "features", out="folder of captions and scores")
    parser.add_argument(
        "--model", type=Path, nargs="+", required=True, metavar="PATH", help="run folder; several are an ensemble"
    )
    parser.set_defaults(function=evaluate)


def evaluate(a: Arguments) -> None:
    """Decode and score."""
    settings, execution = typed(a, "EvaluationSpec"), given_execution(a)
    _refuse_impossible(a.out)
    claim(execution.device)
    from recap.evaluation.job import evaluate as run

    run(spec=settings, execution=execution, **chosen(a, "corpus vocabulary features model out"))


def become_processes(spec: RunSpec, execution: Execution) -> None:
    """Take the GPUs of a training; where its spec wants several processes, become the torchrun that starts them."""
    if "WORLD_SIZE" in os.environ:  # one of those processes
        return
    claim(execution.device, spec.processes)
    if spec.processes > 1:
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(spec.processes)]
        os.execv(sys.executable, [sys.executable, *torchrun, "-m", "recap", *sys.argv[1:]])


def _refuse_impossible(out: Path) -> None:
    """Let whoever named a folder that cannot be made hear it now, not when hours are over; nothing is left behind."""
    if not out.is_dir():
        out.mkdir(parents=True)
        out.rmdir()
