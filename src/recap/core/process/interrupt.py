"""Raises an exception from a signal handler so that it neither gets lost nor leaves a lock taken.

Python raises it wherever the main thread happens to be. In a callback of a weak reference or in ``__del__`` it is
printed and forgotten. In an import it may leave a lock taken, for which every thread that imports then waits for ever,
and a library that loads its C++ part may abort the process over it.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

AGAIN_SECONDS = 0.05
IMPORT = "<frozen importlib"  # how the file names of Python's own import begin


class Interrupt:
    """Raises an exception in the main thread, but not within an import, and again until it is on its way out.

    It repeats by an alarm (SIGALRM), whose handler is replaced from the first signal to :meth:`end`.

    Args:
        allowed: returns whether the main thread may be interrupted now.
    """

    def __init__(self, allowed: Callable[[], bool] = lambda: True) -> None:
        self._allowed = allowed
        self._error: BaseException | None = None
        self._before: Any = None

    def raise_(self, error: BaseException, frame: FrameType | None) -> None:
        """Raise an error, or do so later; called from a signal handler with the frame that the handler was given."""
        if self._error is None:
            self._before = signal.signal(signal.SIGALRM, lambda _, frame: self._raise(frame))
        self._error = self._error or error
        self._raise(frame)

    def end(self) -> None:
        """Raise nothing more, and give back SIGALRM; to be called when no handler calls ``raise_`` any more."""
        error, self._error = self._error, None  # from here on an alarm neither raises nor sets the next one
        if error is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)

    def _raise(self, frame: FrameType | None) -> None:
        if self._error is None or not self._allowed() or on_its_way_out():
            return
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        if not is_importing(frame):
            raise self._error


def is_importing(frame: FrameType | None) -> bool:
    """Return whether a frame belongs to an import, or to what an import runs."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(IMPORT):
            return True
        frame = frame.f_back
    return False


def on_its_way_out() -> bool:
    """Return whether this thread is cleaning up after a SystemExit or KeyboardInterrupt."""
    error = sys.exception()
    while error is not None:
        if isinstance(error, SystemExit | KeyboardInterrupt):
            return True
        error = error.__context__
    return False
