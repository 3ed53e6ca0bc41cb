"""Pieces that the commands share: how a spec and paths are given."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recap.cli.parser import Parser
from recap.core.plugins import resolve

if TYPE_CHECKING:
    from recap.settings import ExecutionFile

Arguments = argparse.Namespace
Group = Any  # a parser, or a group of its options, whose class has no public name

PATHS = {
    "corpus": "corpus.parquet of the data set",
    "features": "feature stores (.h5) of the data set's pictures: one, or several whose streams a model reads together",
    "images": "folders or zips with the pictures",
    "model": "run folder; several are an ensemble",
    "inputs": "folder that the files named in --spec are relative to",
    "results": "folder results/<profile>",
    "scores": "folder results/<profile>/scores",
    "statistics": "what `recap statistics` wrote",
    "subset": "training captions, as `recap data subset` wrote them",
    "vocabulary": "vocabulary.json of the data set",
}
SEVERAL = ("features", "images", "model")  # take one path or more
SPEC = "settings: a file of JSON, - for standard input, or the JSON object itself"


def mapping(text: str) -> dict[str, Any]:
    """Return the JSON object of a file, of standard input (``-``), or of the words themselves (``{...}``)."""
    if not text.lstrip().startswith(("{", "[")):
        text = _read(text)
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise argparse.ArgumentTypeError("nested too deeply; give a flat JSON object") from error
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError('expected a JSON object: {"key": value, ...}')
    return value


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{file}: cannot be read ({error}); name a file of JSON") from error


def chosen(arguments: Arguments, names: str) -> dict[str, Any]:
    """Return the named arguments as keywords."""
    return {name: getattr(arguments, name) for name in names.split()}


def calls(target: str, names: str, **specs: str) -> Callable[[Arguments], None]:
    """Return a command that imports a function when it runs, and calls it.

    Args:
        target: the function, ``module:name``.
        names: of the arguments that it takes as keywords.
        specs: other keyword -> name of the class in `SPECS` by which ``--spec`` is checked for it.
    """
    return partial(_call, target=target, names=names, specs=specs)


def _call(arguments: Arguments, *, target: str, names: str, specs: dict[str, str]) -> None:
    checked = {keyword: typed(arguments, keys) for keyword, keys in specs.items()}
    resolve(target)(**chosen(arguments, names), **checked)


def paths(parser: Group, *names: str, required: bool = True, **described: str) -> None:
    """Add path arguments: those with a meaning that all commands share, and others with their own help."""
    for name, text in {**{name: PATHS[name] for name in names}, **described}.items():
        count = "+" if name in SEVERAL else None
        parser.add_argument(f"--{name}", type=Path, nargs=count, required=required, metavar="PATH", help=text)


def spec(parser: Parser, keys: str, *, among: Group | None = None) -> None:
    """Add ``--spec``, whose keys are those of a class in ``recap.settings``; the help page lists them.

    Args:
        parser: of the command.
        keys: name of the class in `SPECS`.
        among: the group of options that it belongs to, where it is not all that the command takes.
    """
    parser.spec_keys = keys
    (among or parser).add_argument("--spec", type=mapping, required=among is None, metavar="FILE", help=SPEC)


def typed(arguments: Arguments, keys: str) -> Any:
    """Return the spec as the class in `SPECS` that ``keys`` names.

    Raises:
        ConfigError: it has an unknown key, lacks one or has a wrong value.
    """
    from recap.settings.params import validate
    from recap.settings.specs import SPECS

    return validate(SPECS[keys], arguments.spec, "--spec")


def add_execution(parser: Group) -> None:
    """Add ``--execution``: how a job is computed; no part of its spec."""
    parser.add_argument(
        "--execution",
        type=Path,
        metavar="FILE",
        help="YAML with device, threads, compile, activation_checkpointing, features_in_memory, checkpoint_minutes, "
        "keep_state, for `train` also max_steps, overfit_one_batch (default: a GPU if there is one, one thread)",
    )


def given_execution(arguments: Arguments) -> ExecutionFile:
    """Return how a job is to be computed.

    Raises:
        ConfigError: the file is missing, or has an unknown key or a wrong value.
    """
    from recap.settings import ExecutionFile
    from recap.settings.params import read_mapping, validate

    values = read_mapping(arguments.execution) if arguments.execution else {}
    execution: ExecutionFile = validate(ExecutionFile, values, str(arguments.execution))
    return execution


def add_compute(parser: Parser, *, images_required: bool = True) -> None:
    """Add what jobs on pictures share: the pictures, the processor and its threads."""
    parser.add_argument(
        "--images",
        type=Path,
        nargs="+" if images_required else "*",
        default=[],
        required=images_required,
        metavar="PATH",
        help=PATHS["images"],
    )
    add_processor(parser)


def add_processor(parser: Parser) -> None:
    """Add the processor of a job and its threads."""
    add_device(parser)
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="CPU threads (2)")


def add_device(parser: Parser) -> None:
    """Add ``--device``."""
    parser.add_argument(
        "--device", default="auto", choices=["auto", "cpu", "cuda"], help="auto (default): a GPU if there is one"
    )


def add_run_files(parser: Parser) -> None:
    """Add the files of a run that lies outside of its results."""
    files = parser.add_argument_group("files of a run that lies outside of its results")
    files.add_argument("--vocabulary", type=Path, metavar="PATH", help="vocabulary.json")
    files.add_argument("--features", type=Path, nargs="+", default=[], metavar="PATH", help="feature stores (.h5)")
    files.add_argument("--weights", type=Path, metavar="PATH", help="weights of what made the features")


def add_params_folder(parser: Group) -> None:
    """Add the folder of the parameter files."""
    parser.add_argument(
        "--params", type=Path, default=Path("params"), metavar="PATH", help="folder of the parameter files (params)"
    )
