"""``recap artifacts``: results to and from a DVC remote, verified, and removed."""

from __future__ import annotations

import sys
from pathlib import Path

from recap.cli.arguments import Arguments
from recap.cli.parser import Commands, Parser, command
from recap.core.errors import ConfigError, RecapError


def add_artifacts(commands: Commands) -> None:
    """Add the commands of this group."""
    _add_add(commands)
    _add_push(commands)
    _add_pull(commands)
    _add_verify(commands)
    _add_clean(commands)


def _add_add(commands: Commands) -> None:
    parser = command(
        commands,
        "add",
        purpose="let DVC keep the results of a profile: an entry in dvc.profiles.yaml, for which dvc.yaml has stages",
        example="recap artifacts add params/xlan/profile.yaml --scale photos --inputs /data/flickr8k",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="of the profile: params/demo.yaml")
    parser.add_argument("--scale", metavar="NAME", help="of a paper's profile")
    parser.add_argument("--inputs", metavar="FOLDER", help="folder of outside files (the profile's)")
    parser.add_argument("--fetch", action="store_true", help="fetch missing outside files")
    parser.add_argument("--conda", action="store_true", help="run detectors in their conda environment")
    parser.set_defaults(function=_add)


def _add(a: Arguments) -> None:
    from recap.artifacts.profiles import add

    name = add(a.file, scale=a.scale, inputs=a.inputs, fetch=a.fetch, conda=a.conda)
    print(f"dvc repro report@{name}")


def _add_push(commands: Commands) -> None:
    parser = command(
        commands,
        "push",
        purpose="record finished results for git and send them to the DVC remote (docs/artifacts.md)",
        example="recap artifacts push xlan_photos",
    )
    _add_profile(parser, "that have results")
    parser.set_defaults(function=_push)


def _push(a: Arguments) -> None:
    from recap.artifacts.transfer import push

    push(a.profile, inputs=a.inputs)


def _add_pull(commands: Commands) -> None:
    parser = command(
        commands,
        "pull",
        purpose="bring the results that dvc.lock names and publish them in MLflow; train nothing (docs/artifacts.md)",
        example="recap artifacts pull xlan_photos",
    )
    _add_profile(parser, "whose results dvc.lock names")
    parser.set_defaults(function=_pull)


def _pull(a: Arguments) -> None:
    from recap.artifacts.transfer import pull

    pull(a.profile, inputs=a.inputs)


def _add_verify(commands: Commands) -> None:
    parser = command(
        commands,
        "verify",
        purpose="check every file of results against its checksums",
        example="recap artifacts verify results/demo reports/demo",
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="such as results/demo reports/demo")
    parser.set_defaults(function=_verify)


def _verify(a: Arguments) -> None:
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


def _add_clean(commands: Commands) -> None:
    parser = command(
        commands,
        "clean",
        purpose="remove the results, reports, states and MLflow runs of one profile",
        example="recap artifacts clean flickr8k",
    )
    parser.add_argument("profile", metavar="PROFILE", help="its name")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(function=_clean)


def _clean(a: Arguments) -> None:
    from recap.artifacts.clean import existing_paths, remove

    paths = existing_paths(a.profile)
    if not paths:
        print(f"{a.profile}: nothing is there")
    elif a.yes or _confirmed(a.profile, paths):
        remove(a.profile)
        print(f"{a.profile}: removed {', '.join(map(str, paths))}")
    else:
        print("nothing was removed")


def _confirmed(profile: str, paths: list[Path]) -> bool:
    """Ask on the terminal; without one, refuse."""
    if not sys.stdin.isatty():
        raise ConfigError(
            f"{profile}: there is no terminal to confirm on; give CONFIRM=yes or --yes to remove its results"
        )
    print("\n".join(map(str, paths)))
    answer = input(f"Remove these and the runs of {profile} in MLflow? [y/N] ")
    return answer.strip().lower() in ("y", "yes")


def _add_profile(parser: Parser, default: str) -> None:
    parser.add_argument(
        "profile", nargs="?", metavar="PROFILE", help=f"its name (default: all in dvc.profiles.yaml {default})"
    )
    parser.add_argument(
        "--inputs", metavar="FOLDER", help="folder of outside files, as given to Snakemake with --config inputs=FOLDER"
    )
