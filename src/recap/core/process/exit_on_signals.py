"""Signals end a command as an exception does, so that unfinished files are removed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from recap.core.process.interrupt import Interrupt
from recap.core.process.workflow_lock import WORKFLOW_VARIABLE

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
ending = threading.Event()
"""Whether a signal is ending the command: a thread that waits for what may never come gives up then."""


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise on the first SIGINT or SIGTERM, so that unfinished files are removed and child processes end.

    Later signals do not interrupt the cleanup. Training installs its own handlers.

    Raises:
        KeyboardInterrupt: SIGINT, of a command that no workflow started.
        SystemExit: SIGTERM, or SIGINT of a job, whose workflow prints one message for all of its jobs; the status is
            128 + signal number, as in a shell.
    """
    interrupt = Interrupt()

    def stop(number: int, frame: FrameType | None) -> None:
        ending.set()
        alone = number == signal.SIGINT and WORKFLOW_VARIABLE not in os.environ
        interrupt.raise_(KeyboardInterrupt() if alone else SystemExit(128 + number), frame)

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        ending.clear()
        for number, handler in before.items():
            signal.signal(number, handler)
        interrupt.end()
