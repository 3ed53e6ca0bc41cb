"""Signals end a command the way an error does, so that whatever it had half done is undone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from recap.core.process.parent import VARIABLE

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Let the first SIGINT or SIGTERM raise, so that half-written files go and programs that were started end.

    Later signals are not heard: they would interrupt the clearing up. A training has a way of its own to end.

    Raises:
        KeyboardInterrupt: SIGINT came from whoever typed the command.
        SystemExit: another signal came, or a workflow typed the command and says the sentence for all of its jobs; the
            status is 128 and the signal's number, as a shell would have it.
    """

    def end(number: int, _: Any) -> NoReturn:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        if number == signal.SIGINT and VARIABLE not in os.environ:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
