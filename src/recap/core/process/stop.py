"""SIGTERM and Ctrl-C end a job at once, or when it says that it may be left."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

from recap.core.log import log

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop(ContextDecorator):
    """Within, a polite signal leaves by SystemExit with one line and the status 128 + signal (143, 130).

    Args:
        name: of the job, for the line.

    Attributes:
        asked: the signal that came, or None.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: int | None = None
        self._held = self._said = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # only there may handlers be set
            self._before = {number: signal.signal(number, self._hear) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if isinstance(error, SystemExit) and self.asked is not None and not self._said:
            self.leave("the same command begins this step again")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within, a signal is only kept in `asked`: the job looks there when it may be left."""
        before, self._held = self._held, True
        try:
            yield
        finally:
            self._held = before

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Within `held`, a passage that may be left at once, a signal that came before it included."""
        before, self._held = self._held, False
        try:
            if self.asked is not None:
                raise SystemExit(self.status)
            yield
        finally:
            self._held = before

    @property
    def status(self) -> int:
        """The exit status; SIGTERM's where another process was asked."""
        return 128 + (self.asked or signal.SIGTERM)

    def leave(self, how: str) -> SystemExit:
        """Say that the job ends, and what is to be known; returns what to raise."""
        self._said = True
        log.info(f"{self.name}: stopped by {signal.Signals(self.status - 128).name}; {how}")
        return SystemExit(self.status)

    def _hear(self, number: int, _: FrameType | None) -> None:
        self.asked = number
        if not self._held:
            raise SystemExit(self.status)
