"""The command line: parse, call one function, print. Science and files live in the rooms."""

from __future__ import annotations

import argparse
import sys

from recap.cli.artifacts import add_artifacts
from recap.cli.config import add_config
from recap.cli.data import add_data
from recap.cli.export import add_export
from recap.cli.features import add_features
from recap.cli.report import add_report, add_statistics, add_track
from recap.cli.train import add_evaluate, add_train
from recap.core.errors import RecapError


def main(argv: list[str] | None = None) -> None:
    """Run one command; an error a user can act on becomes one sentence and exit status 2."""
    arguments = build_parser().parse_args(argv)
    try:
        arguments.function(arguments)
    except RecapError as error:
        print(f"recap: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def build_parser() -> argparse.ArgumentParser:
    """Describe all commands."""
    parser = argparse.ArgumentParser(prog="recap", description="Reproduce image-captioning papers.")
    groups = parser.add_subparsers(required=True, metavar="COMMAND")
    add_data(
        groups.add_parser("data", help="outside files, captions, vocabularies, subsets").add_subparsers(required=True)
    )
    add_features(groups.add_parser("features", help="feature stores").add_subparsers(required=True))
    add_train(groups.add_parser("train", help="train one stage of one run"))
    add_evaluate(groups.add_parser("evaluate", help="decode a split and score it"))
    add_statistics(groups.add_parser("statistics", help="means, intervals and tests of one table"))
    add_report(groups.add_parser("report", help="tables and figures").add_subparsers(required=True))
    add_export(groups.add_parser("export", help="results in other forms").add_subparsers(required=True))
    add_artifacts(
        groups.add_parser("artifacts", help="results: push, pull, verify, clean").add_subparsers(required=True)
    )
    add_track(groups.add_parser("track", help="MLflow").add_subparsers(required=True))
    add_config(groups.add_parser("config", help="check parameter files").add_subparsers(required=True))
    return parser
