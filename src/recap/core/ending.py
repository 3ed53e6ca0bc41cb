"""Signals end a command the way an error does, so that whatever it had half done is undone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Let the first SIGINT or SIGTERM raise, so that half-written files go and programs that were started end.

    Later signals are not heard: they would interrupt the clearing up. A training has a way of its own to end.

    Raises:
        SystemExit: a signal came; the status is 128 and its number, as a shell would say it.
    """

    def end(number: int, _: Any) -> NoReturn:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
