"""The logger ``recap``: plain lines on standard error,
lines with times and levels in a file, and progress.

A library call logs and prints nothing by itself; the command line and the workflow call
`configure`. Standard output stays the result of a command.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Sequence
from io import TextIOBase
from pathlib import Path
from typing import Any, TextIO, TypeVar

from recap.core.errors import RecapError
from recap.core.hashing import value_hash

Item = TypeVar("Item")

LEVELS = ("debug", "info", "warning", "error")
VARIABLE = "RECAP_LOG"  # path of the log file, where --log-file does not name one
FILE_FORMAT = "%(asctime)s %(levelname)-7s %(module)s: %(message)s"
FILE_ONLY = {"file_only": True}  # as `extra`: the terminal gets this record in another way
# set by the workflow for its jobs: the folder of the reasons why they failed
FAILURES_VARIABLE = "RECAP_FAILURES"
# What the workflow prints then; `recap artifacts push` looks for it.
NOTHING_TO_DO = "Nothing to be done: all requested files are up to date."
_FIRST_LINE, _SPACING = 10, 30  # seconds: of progress without a terminal

log = logging.getLogger("recap")
# name of a run in its paths -> what messages call it until the next `configure`
LABELS: dict[str, str] = {}


def configure(level: str = "info", file: Path | None = None) -> None:
    """Let the logger ``recap`` write to standard error and to a file, if named, and nowhere else"""
    LABELS.clear()
    for handler in list(log.handlers):
        log.removeHandler(handler)
        handler.close()
    log.setLevel(level.upper())
    # MLflow, Alembic and Snakemake set up the root logger, which would print each line again
    log.propagate = False
    log.addHandler(Terminal())
    name = file or os.environ.get(VARIABLE)
    if not name:
        return
    file = Path(name)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(file, encoding="utf-8", errors="replace")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RecapError(f"{file}: cannot be written ({reason}); name another log file") from error
    handler.setFormatter(logging.Formatter(FILE_FORMAT))
    log.addHandler(handler)


class Terminal(logging.StreamHandler[TextIO]):
    """Writes a plain line per record on whatever standard error is now.

    A warning begins with ``WARNING:``.
    """

    # Tests and `contextlib.redirect_stderr` replace standard error; the base class sets its own.
    stream = property(lambda _: sys.stderr, lambda _self, _stream: None)

    def filter(self, record: logging.LogRecord) -> bool:
        """Leave out what is for the file alone."""
        return not getattr(record, "file_only", False) and bool(super().filter(record))

    def format(self, record: logging.LogRecord) -> str:
        """Return the message; the base class appends a traceback if the record has one."""
        line = super().format(record)
        return f"WARNING: {line}" if record.levelno == logging.WARNING else line

    def handleError(self, record: logging.LogRecord) -> None:
        """Raise what writing raised: a reader that went away (``| head``) ends the command."""
        raise


def shown(text: str) -> str:
    """Return a message with the label in place of the run's name that it begins with."""
    name = next(filter(text.startswith, LABELS), "")
    return LABELS.get(name, "") + text.removeprefix(name)


def _show_label(record: logging.LogRecord) -> bool:
    record.msg = shown(str(record.msg))
    return True


log.addFilter(_show_label)


def in_workflow() -> bool:
    """Return whether this process is a job of a workflow and so shares the terminal with others."""
    return FAILURES_VARIABLE in os.environ


def failure_file(folder: Path, arguments: Sequence[str]) -> Path:
    """Return the file for a command's failure, named by its arguments, which both sides know."""
    return folder / f"{value_hash(list(arguments))}.txt"


def record_failure(reason: str) -> None:
    """Write why this job fails: the workflow prints it beside the job's name and in its summary."""
    if not in_workflow():
        return
    file = failure_file(Path(os.environ[FAILURES_VARIABLE]), sys.argv[1:])
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(reason, encoding="utf-8", errors="replace")
    except OSError as error:
        # The disk itself may be the failure; the reason is printed to standard error in any case.
        log.error(f"recap: {file}: {error.strerror}")


def progress(
    items: Iterable[Item], *, name: str, unit: str, total: int | None = None
) -> Iterable[Item]:
    """Show a progress bar on a terminal, else a line now
    and then with what is done and how long the rest will take.

    Nothing is shown without a name: whoever works in small pieces shows the progress of the whole.
    """
    if not name:
        return items
    return _bar(items, name, total=total, unit=unit)


def byte_bar(*, total: int | None) -> Any:
    """Return a bar of fetched bytes, or lines; ``update`` moves it and ``close`` ends it."""
    return _bar(None, "fetch", total=total, unit="B", unit_scale=True, unit_divisor=1024)


def _bar(
    items: Iterable[Any] | None, name: str, *, total: int | None, unit: str, **options: Any
) -> Any:
    from tqdm import tqdm

    if total is None and hasattr(items, "__len__"):
        total = len(items)  # type: ignore[arg-type]
    options |= {"total": total, "unit": f" {unit}"}
    # Jobs of a workflow share one terminal, so they print lines, too.
    if sys.stderr.isatty() and not in_workflow():
        return tqdm(items, desc=shown(name), mininterval=0.5, file=sys.stderr, **options)
    rest = "{n_fmt}{unit}, {elapsed} so far"
    if total:
        rest = "{n_fmt} of {total_fmt}{unit}, {remaining} left"
    options |= {"delay": _FIRST_LINE, "mininterval": _SPACING, "miniters": 1, "leave": False}
    # A name may hold braces, which are tqdm's own marks.
    return tqdm(items, desc=name, bar_format="{desc}: " + rest, file=_Lines(), **options)


class _Lines(TextIOBase):
    """What tqdm writes to where no terminal is: each text that it draws becomes a message."""

    def write(self, text: str) -> int:
        if line := text.strip():
            log.info(line)
        return len(text)


def duration(seconds: float) -> str:
    """Return a time in at most two units: ``45 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
    whole = round(seconds)
    for unit, size, smaller, part in (
        ("d", 86400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit} {rest} {smaller}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"
