"""``recap artifacts``: results to and from a DVC remote, verified, and removed."""

from __future__ import annotations

import sys
from pathlib import Path

from recap.cli.arguments import Arguments, calls
from recap.cli.parser import Commands, command
from recap.core.counted import counted
from recap.core.errors import ConfigError, RecapError


def add_artifacts(commands: Commands) -> None:
    """Add the commands of this group."""
    add = command(
        commands,
        "add",
        _add,
        purpose="add a profile to dvc.profiles.yaml, so that DVC versions its results",
        example="recap artifacts add params/flickr8k.yaml --inputs /data/flickr8k",
    )
    add.add_argument("file", type=Path, metavar="FILE", help="of the profile: params/demo.yaml")
    add.add_argument("--scale", metavar="NAME", help="of a paper's profile")
    add.add_argument("--inputs", metavar="FOLDER", help="folder of outside files (the profile's)")
    add.add_argument("--fetch", action="store_true", help="fetch missing outside files")
    add.add_argument("--conda", action="store_true", help="run detectors in their conda environment")
    push = command(
        commands,
        "push",
        calls("recap.share.dvc:push", "profile inputs"),
        purpose="record finished results for git and send them to the DVC remote (docs/guides/artifacts.md)",
        example="recap artifacts push flickr8k",
    )
    pull = command(
        commands,
        "pull",
        calls("recap.share.dvc:pull", "profile inputs"),
        purpose="get the results that dvc.lock names and list them in MLflow (docs/guides/artifacts.md)",
        example="recap artifacts pull flickr8k",
    )
    inputs = "folder of outside files, as given to Snakemake with --config inputs=FOLDER"
    for parser, default in ((push, "that have results"), (pull, "whose results dvc.lock names")):
        parser.add_argument(
            "profile", nargs="?", metavar="PROFILE", help=f"its name (default: all in dvc.profiles.yaml {default})"
        )
        parser.add_argument("--inputs", metavar="FOLDER", help=inputs)
    verify = command(
        commands,
        "verify",
        _verify,
        purpose="verify all files of results against their checksums",
        example="recap artifacts verify results/demo reports/demo",
    )
    verify.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="such as results/demo reports/demo")
    clean = command(
        commands,
        "clean",
        _clean,
        purpose="remove the results, reports, states and MLflow runs of one profile",
        example="recap artifacts clean flickr8k",
    )
    clean.add_argument("profile", metavar="PROFILE", help="its name")
    clean.add_argument("--yes", action="store_true", help="do not ask")


def _add(a: Arguments) -> None:
    from recap.share.dvc import add_profile

    name = add_profile(a.file, scale=a.scale, inputs=a.inputs, fetch=a.fetch, conda=a.conda)
    print(f"dvc repro report@{name}")


def _verify(a: Arguments) -> None:
    from recap.share.artifacts import problems

    found = 0
    for sentence in (sentence for folder in a.folders for sentence in problems(folder)):
        print(sentence)
        found += 1
    checked = ", ".join(map(str, a.folders))
    if found:
        raise RecapError(f"{checked}: {counted(found, 'problem')}")
    print(f"{checked}: every file is what it was when it was made")


def _clean(a: Arguments) -> None:
    from recap.share.artifacts import existing_paths, remove

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
