"""Pieces that the commands share: how a spec and paths are given."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from recap.cli.parser import Parser

Arguments = argparse.Namespace

PATHS = {
    "corpus": "corpus.parquet of the data set",
    "features": "feature store (.h5) of the data set's pictures",
    "inputs": "folder that the files named in --spec are relative to",
    "results": "folder results/<profile>",
    "scores": "folder results/<profile>/scores",
    "statistics": "what `recap statistics` wrote",
    "subset": "training captions, as `recap data subset` wrote them",
    "vocabulary": "vocabulary.json of the data set",
}


def mapping(text: str) -> dict[str, Any]:
    """Parse a spec: a JSON object on the command line."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise argparse.ArgumentTypeError("nested too deeply for JSON that anyone wrote") from error
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError('expected a JSON object: {"key": value, ...}')
    return value


def chosen(arguments: Arguments, names: str) -> dict[str, Any]:
    """Return the named arguments as keywords."""
    return {name: getattr(arguments, name) for name in names.split()}


def paths(parser: Parser, *names: str, **described: str) -> None:
    """Add required path arguments: those with a meaning that all commands share, and others with their own help."""
    for name, text in {**{name: PATHS[name] for name in names}, **described}.items():
        parser.add_argument(f"--{name}", type=Path, required=True, metavar="PATH", help=text)


def spec(parser: Parser, keys: str) -> None:
    """Add ``--spec``, whose keys are those of a class in ``recap.core.config``; the help page lists them."""
    parser.spec_keys = keys
    parser.add_argument("--spec", type=mapping, required=True, metavar="JSON", help="settings as a JSON object")


def checked(arguments: Arguments, keys: str) -> dict[str, Any]:
    """Return the spec, complete with defaults, as plain values.

    Raises:
        ConfigError: it has an unknown key, lacks one or has a wrong value.
    """
    from recap.core.config.specs import completed

    return completed(keys, arguments.spec)


def add_compute(parser: Parser, *, images_required: bool = True) -> None:
    """Add what jobs on pictures share: the pictures, the processor and its threads."""
    parser.add_argument(
        "--images",
        type=Path,
        nargs="+" if images_required else "*",
        default=[],
        required=images_required,
        metavar="PATH",
        help="folders or zips with the pictures",
    )
    parser.add_argument(
        "--device", default="auto", choices=["auto", "cpu", "cuda"], help="auto (default): a GPU if there is one"
    )
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="CPU threads (2)")
