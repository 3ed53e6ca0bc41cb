"""Progress and messages on standard error, so that standard output stays a result."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TypeVar

Item = TypeVar("Item")


def say(message: str) -> None:
    """Print one line on standard error."""
    print(message, file=sys.stderr, flush=True)


def progress(items: Iterable[Item], *, name: str, unit: str, total: int | None = None) -> Iterable[Item]:
    """Show a progress bar on a terminal and a line every ten seconds in a log file."""
    from tqdm import tqdm

    return tqdm(items, desc=name, unit=f" {unit}", total=total, mininterval=_interval(), file=sys.stderr)


def byte_bar(name: str, *, total: int | None) -> Any:
    """Return a bar of bytes that is moved by ``update`` and ended by ``close``."""
    from tqdm import tqdm

    return tqdm(desc=name, unit="B", unit_scale=True, total=total, mininterval=_interval(), file=sys.stderr)


def _interval() -> float:
    return 0.5 if sys.stderr.isatty() else 10.0
