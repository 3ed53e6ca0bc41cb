"""The logger ``recap``: plain lines on standard error, and lines with times and levels in a file.

A library call logs and prints nothing by itself; the command line and the workflow call `configure`. Standard output
stays the result of a command.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TextIO

from recap.core.errors import RecapError

LEVELS = ("debug", "info", "warning", "error")
VARIABLE = "RECAP_LOG"  # path of the log file, where --log-file does not name one
FILE_FORMAT = "%(asctime)s %(levelname)-7s %(module)s: %(message)s"
FILE_ONLY = {"file_only": True}  # as `extra`: the terminal gets this record in another way

log = logging.getLogger("recap")
_label = ContextVar("name of a run in its paths, and its label", default=("", ""))


@contextmanager
def labelled(name: str, label: str) -> Iterator[None]:
    """Within this context, messages that begin with a run's name in its paths begin with its label."""
    before = _label.set((name, label))
    log.addFilter(_show_label)
    try:
        yield
    finally:
        log.removeFilter(_show_label)
        _label.reset(before)


def shown(text: str) -> str:
    """Return a message with the label in place of the name that it begins with."""
    name, label = _label.get()
    return label + text.removeprefix(name) if text.startswith(name) else text


def _show_label(record: logging.LogRecord) -> bool:
    record.msg = shown(str(record.msg))
    return True


def configure(level: str = "info", file: Path | None = None) -> None:
    """Let the logger ``recap`` write to standard error and, if one is named, to a file; earlier settings are replaced.

    Args:
        level: the lowest of `LEVELS` that is written.
        file: log file, to which lines are added; the environment variable ``RECAP_LOG`` names one, too.

    Raises:
        RecapError: the file cannot be written.
    """
    for handler in list(log.handlers):
        log.removeHandler(handler)
        handler.close()
    log.setLevel(level.upper())
    log.propagate = False  # MLflow, Alembic and Snakemake set up the root logger, which would print each line again
    log.addHandler(Terminal())
    named = file or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is not None:
        log.addHandler(_file_handler(named))


def _file_handler(file: Path) -> logging.Handler:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(file, encoding="utf-8", errors="replace")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RecapError(f"{file}: cannot be written ({reason}); name another log file") from error
    handler.setFormatter(logging.Formatter(FILE_FORMAT))
    return handler


class Terminal(logging.StreamHandler[TextIO]):
    """Writes one plain line per record on whatever standard error is now, at once, so that lines do not mix.

    A warning begins with ``WARNING:``; other levels show their message alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(lambda record: not getattr(record, "file_only", False))

    @property
    def stream(self) -> TextIO:
        """Standard error, which tests and `contextlib.redirect_stderr` replace."""
        return sys.stderr

    @stream.setter
    def stream(self, _: Any) -> None:
        pass  # set by the base class

    def format(self, record: logging.LogRecord) -> str:
        """Return the message; the base class appends a traceback if the record has one."""
        line = super().format(record)
        return f"WARNING: {line}" if record.levelno == logging.WARNING else line

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the name is the base class's)
        """Raise what writing raised: a reader that went away (``| head``) ends the command."""
        raise
