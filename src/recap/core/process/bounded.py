"""Calls that the system may never answer, such as a read from a network that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from typing import TypeVar

from recap.core.process.signals import ending

Result = TypeVar("Result")
_LOOK_SECONDS = 0.2


def bounded(call: Callable[[], Result], seconds: float) -> Result:
    """Return what a call returns; it is left behind, in a thread of its own, where it takes longer.

    Raises:
        TimeoutError: it took longer, or a signal ends the command.
    """
    future: Future[Result] = Future()

    def answer() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # handed over, whatever it is
            future.set_exception(error)

    threading.Thread(target=answer, daemon=True).start()
    end = time.monotonic() + seconds
    while True:
        try:
            return future.result(timeout=_LOOK_SECONDS)
        except TimeoutError:
            if future.done() or ending.is_set() or time.monotonic() > end:
                raise
