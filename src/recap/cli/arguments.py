"""Pieces that the commands share: how a spec and paths are given."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

Arguments = argparse.Namespace


def mapping(text: str) -> dict[str, Any]:
    """Parse a spec: a JSON object on the command line."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("expected a JSON object")
    return value


def chosen(arguments: Arguments, names: str) -> dict[str, Any]:
    """Return the named arguments as keywords."""
    return {name: getattr(arguments, name) for name in names.split()}


def paths(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add required path arguments."""
    for name in names:
        parser.add_argument(f"--{name}", type=Path, required=True)


def spec(parser: argparse.ArgumentParser) -> None:
    """Add ``--spec``."""
    parser.add_argument("--spec", type=mapping, required=True, help="settings as a JSON object")
