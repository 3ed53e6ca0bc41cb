"""``recap artifacts``: results to and from a DVC remote, checked whole, and removed."""

from __future__ import annotations

import sys
from pathlib import Path

from recap.cli.arguments import Arguments
from recap.cli.parser import Commands, Parser, command
from recap.core.errors import ConfigError, RecapError


def add_artifacts(commands: Commands) -> None:
    """Add the commands of this group."""

    def push(a: Arguments) -> None:
        from recap.artifacts.transfer import push as run

        run(inputs=a.inputs)

    def pull(a: Arguments) -> None:
        from recap.artifacts.transfer import pull as run

        run(inputs=a.inputs)

    def verify(a: Arguments) -> None:
        from recap.artifacts.verify import problems

        found = 0
        for folder in a.folders:
            for sentence in problems(folder):
                print(sentence)
                found += 1
        checked = ", ".join(map(str, a.folders))
        if found:
            raise RecapError(f"{checked}: {found} problem{'s' * (found > 1)}")
        print(f"{checked}: every file is what it was when it was made")

    def clean(a: Arguments) -> None:
        from recap.artifacts.clean import belongings, remove

        paths = belongings(a.profile)
        if not paths:
            print(f"{a.profile}: nothing is there")
            return
        if not a.yes:
            if not sys.stdin.isatty():
                raise ConfigError(f"{a.profile}: nobody is here to ask; say CONFIRM=yes or --yes to remove its results")
            print("\n".join(map(str, paths)))
            answer = input(f"Remove these and the runs of {a.profile} in MLflow? [y/N] ")
            if answer.strip().lower() not in ("y", "yes"):
                print("nothing was removed")
                return
        remove(a.profile)
        print(f"{a.profile}: removed {', '.join(map(str, paths))}")

    def add_inputs(parser: Parser) -> None:
        parser.add_argument(
            "--inputs",
            metavar="FOLDER",
            help="folder of outside files, as given to Snakemake with --config inputs=FOLDER",
        )

    parser = command(
        commands,
        "push",
        purpose="record finished results in dvc.lock and send them to the DVC remote (docs/artifacts.md)",
        example="recap artifacts push",
    )
    add_inputs(parser)
    parser.set_defaults(function=push)
    parser = command(
        commands,
        "pull",
        purpose="bring the results that dvc.lock names and publish them in MLflow; train nothing (docs/artifacts.md)",
        example="recap artifacts pull",
    )
    add_inputs(parser)
    parser.set_defaults(function=pull)
    parser = command(
        commands,
        "verify",
        purpose="check every file of results against its checksums",
        example="recap artifacts verify results/demo reports/demo",
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="such as results/demo reports/demo")
    parser.set_defaults(function=verify)
    parser = command(
        commands,
        "clean",
        purpose="remove the results, reports, states and MLflow runs of one profile",
        example="recap artifacts clean flickr8k",
    )
    parser.add_argument("profile", metavar="PROFILE", help="its name")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(function=clean)
