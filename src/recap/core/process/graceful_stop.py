"""SIGTERM and Ctrl-C stop a job at once, or at the next point where the job allows it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

from recap.core.log import log
from recap.core.process.interrupt import Interrupt

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class GracefulStop(ContextDecorator):
    """Within this context, SIGTERM and SIGINT raise SystemExit with status 128 + signal (143, 130) and log one line.

    Args:
        name: of the job, for the log line.

    Attributes:
        received: the signal that was received, or None.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.received: int | None = None
        self._deferred = self._logged = False
        self._before: dict[int, Any] = {}
        self._interrupt = Interrupt(allowed=lambda: not self._deferred)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python allows handlers only there
            self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._interrupt.end()
        if isinstance(error, SystemExit) and self.received is not None and not self._logged:
            self.exit("the same command starts this step again")

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Only note a signal in `received` within this context; the job checks it where it can stop."""
        before, self._deferred = self._deferred, True
        try:
            yield
        finally:
            self._deferred = before

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Within `deferred`, a part that may be stopped at once, also by a signal that was received before it."""
        before, self._deferred = self._deferred, False
        try:
            if self.received is not None:
                raise SystemExit(self.status)
            yield
        finally:
            self._deferred = before

    @property
    def status(self) -> int:
        """The exit status; that of SIGTERM if another process received the signal."""
        return 128 + (self.received or signal.SIGTERM)

    def exit(self, message: str) -> SystemExit:
        """Log that the job was stopped, with ``message``, and return the exception to raise."""
        self._logged = True
        log.info(f"{self.name}: stopped by {signal.Signals(self.status - 128).name}; {message}")
        return SystemExit(self.status)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._interrupt.raise_(SystemExit(self.status), frame)
