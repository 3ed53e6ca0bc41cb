"""Progress on standard error: a bar on a terminal, else lines of the logger ``recap`` now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from recap.core.log import log, shown
from recap.core.process.failures import in_workflow
from recap.core.process.signals import raise_if_signalled

Item = TypeVar("Item")

# Without a terminal, or within a workflow, progress is whole lines: the first after so many seconds, ...
FIRST_LINE = 10.0
# ... the next when so much more time has passed than the work has taken until then, so that days do not fill a file.
SPACING = 0.2

_hidden = ContextVar("progress is hidden", default=False)


@contextmanager
def without_progress() -> Iterator[None]:
    """Show no progress of what runs inside: whoever works in small pieces shows that of the whole."""
    before = _hidden.set(True)
    try:
        yield
    finally:
        _hidden.reset(before)


def progress(items: Iterable[Item], *, name: str, unit: str, total: int | None = None) -> Iterable[Item]:
    """Show a progress bar on a terminal, else a line now and then with what is done and how long the rest will take.

    Jobs of a workflow share one terminal, so they print lines, too. A signal ends the loop before its next item.
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    items = _until_signalled(items)
    if _hidden.get():
        return items
    if not _has_terminal():
        return _with_lines(items, Lines(name, unit=unit, total=total))
    from tqdm import tqdm

    return tqdm(items, desc=shown(name), unit=f" {unit}", total=total, mininterval=0.5, file=sys.stderr)


def byte_bar(name: str, *, total: int | None) -> Any:
    """Return a bar of bytes, or lines in its place, that is moved by ``update`` and ended by ``close``."""
    if not _has_terminal():
        return Lines(name, unit="MiB", total=total, scale=2**20)
    from tqdm import tqdm

    return tqdm(desc=name, unit="B", unit_scale=True, total=total, mininterval=0.5, file=sys.stderr)


def duration(seconds: float) -> str:
    """Return a time in words of two units at most: ``45 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
    whole = round(seconds)
    for unit, size, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit} {rest} {smaller}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def time_left(done: float, total: float, seconds: float) -> str:
    """Return how long the rest will take at the same rate: ``about 3 min left``; ``done`` must be above 0."""
    return f"about {duration(seconds * (total - done) / done)} left"


class Lines:
    """Progress of one piece of work as whole lines on standard error.

    Args:
        name: what is done, and for which run; every line begins with it.
        unit: what is counted.
        total: how many there are, if that is known.
        scale: how many counts are one unit.
    """

    def __init__(self, name: str, *, unit: str, total: int | None, scale: int = 1) -> None:
        self._name, self._unit, self._total, self._scale = name, unit, total, scale
        self._done = 0
        self._begun = time.monotonic()
        self._next = self._begun + FIRST_LINE

    def update(self, count: int = 1) -> None:
        """Count on, and print a line if it is time for one."""
        self._done += count
        now = time.monotonic()
        if now < self._next:
            return
        seconds = now - self._begun
        self._next = now + max(FIRST_LINE, SPACING * seconds)
        done = f"{self._done // self._scale:,}"
        if self._total is None:
            log.info(f"{self._name}: {done} {self._unit}, {duration(seconds)} so far")
        elif self._done < self._total:
            total = f"{self._total // self._scale:,}"
            left = time_left(self._done, self._total, seconds) if self._done else f"{duration(seconds)} so far"
            log.info(f"{self._name}: {done} of {total} {self._unit}, {left}")

    def close(self) -> None:
        """End; a bar would be closed here, and lines are whole already."""


def _until_signalled(items: Iterable[Item]) -> Iterator[Item]:
    for item in items:
        raise_if_signalled()
        yield item


def _with_lines(items: Iterable[Item], lines: Lines) -> Iterator[Item]:
    for item in items:
        yield item
        lines.update()


def _has_terminal() -> bool:
    return sys.stderr.isatty() and not in_workflow()
