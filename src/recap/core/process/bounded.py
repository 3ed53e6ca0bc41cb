"""Calls that the system may never answer, such as a read from a network that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, TimeoutError
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from recap.core.process.signals import ending

Item = TypeVar("Item")
Result = TypeVar("Result")
_LOOK_SECONDS = 0.2
_TIDY_SECONDS = 1.0


def bounded(call: Callable[[], Result], seconds: float) -> Result:
    """Return what a call returns; it is left behind, in a thread of its own, where it takes longer.

    Raises:
        TimeoutError: it took longer, or a signal ends the command.
    """
    future: Future[Result] = Future()
    threading.Thread(target=lambda: _answer(future, call), daemon=True).start()
    end = time.monotonic() + seconds
    while True:
        try:
            return future.result(timeout=_LOOK_SECONDS)
        except TimeoutError:
            if future.done() or ending.is_set() or time.monotonic() > end:
                raise


def at_once(
    call: Callable[[Item], Result], items: Sequence[Item], *, workers: int, stop: threading.Event
) -> list[Result]:
    """Return what a call returns for each item, several at once.

    An exception or a signal ends it within a second: calls that look at ``stop`` in time are waited for, others are
    left behind.

    Args:
        call: what is called, in threads.
        items: its arguments.
        workers: calls at once.
        stop: set as soon as the results are no longer wanted.
    """
    answers: list[Future[Result]] = [Future() for _ in items]
    todo: SimpleQueue[tuple[Future[Result], Item]] = SimpleQueue()
    for pair in zip(answers, items, strict=True):
        todo.put(pair)

    def work() -> None:
        with suppress(Empty):
            while not stop.is_set():
                answer, item = todo.get_nowait()
                _answer(answer, partial(call, item))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(workers, len(items)))]
    try:
        for thread in threads:
            thread.start()
        return [answer.result() for answer in answers]
    except BaseException:
        stop.set()
        end = time.monotonic() + _TIDY_SECONDS
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        raise


def _answer(future: Future[Result], call: Callable[[], Result]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # handed over, whatever it is
        future.set_exception(error)
