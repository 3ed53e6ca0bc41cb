"""``recap train`` and ``recap evaluate``: one stage of one run."""

from __future__ import annotations

import argparse
from pathlib import Path

from recap.cli.arguments import Arguments, chosen, paths, spec


def add_train(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""

    def train(a: Arguments) -> None:
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
        from recap.training.evaluation import evaluate as run

        run(**chosen(a, "spec corpus vocabulary features model out"))

    spec(parser)
    paths(parser, "corpus", "vocabulary", "features", "out")
    parser.add_argument("--model", type=Path, nargs="+", required=True, help="run folder; several are an ensemble")
    parser.set_defaults(function=evaluate)
