"""SIGTERM and Ctrl-C end a command as an exception does, so that unfinished files are removed and child processes end.

One handler sets a flag and raises wherever the main thread is, as Python does for Ctrl-C. It only sets the flag within
`deferred` work and during the cleanup after an earlier signal. Within an import it ends the process at once: an
exception could leave a lock taken, or abort a library that loads its C++ part, and nothing is half written yet. Loops
read the flag for each item (`recap.core.progress` does it): an exception that was lost in a callback comes again.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ContextDecorator, contextmanager
from types import FrameType, TracebackType
from typing import Self

from recap.core.log import log
from recap.core.process.workflow_lock import WORKFLOW_VARIABLE

IMPORT = "<frozen importlib"  # how the file names of Python's own import begin
ending = threading.Event()
"""Whether a signal is ending the command: a thread that waits for what may never come gives up then."""


class _Flag:
    received: int | None = None
    deferred = False
    handled = False
    logged = False


_flag = _Flag()


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise on SIGINT or SIGTERM within this context; a context within another one changes nothing.

    Raises:
        KeyboardInterrupt: SIGINT, of a command that no workflow started.
        SystemExit: SIGTERM, or SIGINT of a job, whose workflow prints one message for all of its jobs; the status is
            128 + signal number, as in a shell.
    """
    if _flag.handled or threading.current_thread() is not threading.main_thread():  # Python allows handlers only there
        yield
        return
    before = {number: signal.signal(number, _handle) for number in (signal.SIGTERM, signal.SIGINT)}
    _flag.handled = True
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _flag.handled, _flag.received, _flag.logged = False, None, False
        ending.clear()


def raise_if_signalled() -> None:
    """Raise, in the main thread, if a signal was received and nothing cleans up after one; for loops to call."""
    number = _flag.received
    if number is None or _flag.deferred or threading.current_thread() is not threading.main_thread() or _is_cleanup():
        return
    alone = number == signal.SIGINT and WORKFLOW_VARIABLE not in os.environ
    raise KeyboardInterrupt if alone else SystemExit(128 + number)


class GracefulStop(ContextDecorator):
    """Within this context, SIGTERM and SIGINT raise SystemExit with status 128 + signal (143, 130) and log one line.

    Args:
        name: of the job, for the log line.
        then: what the log line says of the next start.
    """

    def __init__(self, name: str, then: str = "the same command starts this step again") -> None:
        self.name, self.then = name, then
        self._handled: AbstractContextManager[None] | None = None

    def __enter__(self) -> Self:
        self._handled = exit_on_signals()
        self._handled.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stopped = isinstance(error, SystemExit | KeyboardInterrupt) and self.received is not None and not _flag.logged
        leave = self.exit(self.then) if stopped else None
        if self._handled is not None:
            self._handled.__exit__(None, None, None)
        if leave is not None:
            raise leave from None

    @property
    def received(self) -> int | None:
        """The signal that was received, or None."""
        return _flag.received

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Only note a signal in `received` within this context; the job checks it where it can stop."""
        with _deferring(True):
            yield

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Within `deferred`, a part that may be stopped at once, also by a signal that was received before it."""
        with _deferring(False):
            raise_if_signalled()
            yield

    def exit(self, message: str) -> SystemExit:
        """Log that the job was stopped, with ``message``, and return the exception to raise."""
        _flag.logged = True  # also for a context around this one
        number = self.received or signal.SIGTERM  # another process of the training may have received it
        log.info(f"{self.name}: stopped by {signal.Signals(number).name}; {message}")
        return SystemExit(128 + number)


@contextmanager
def _deferring(deferred: bool) -> Iterator[None]:
    before, _flag.deferred = _flag.deferred, deferred
    try:
        yield
    finally:
        _flag.deferred = before


def _handle(number: int, frame: FrameType | None) -> None:
    _flag.received = _flag.received or number
    ending.set()
    if _is_importing(frame) and not _flag.deferred and not _is_cleanup():
        os._exit(128 + number)
    raise_if_signalled()


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a frame belongs to an import, or to what an import runs."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(IMPORT):
            return True
        frame = frame.f_back
    return False


def _is_cleanup() -> bool:
    """Return whether this thread is cleaning up after a SystemExit or KeyboardInterrupt."""
    error = sys.exception()
    while error is not None:
        if isinstance(error, SystemExit | KeyboardInterrupt):
            return True
        error = error.__context__
    return False
