"""Reads what comes next in a thread, while the last is being used."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def prefetch(items: Iterator[Item], depth: int = 2) -> Generator[Item]:
    """Yield the items of an iterator that a thread keeps `depth` ahead of; its errors are raised here."""
    done = object()
    stop = threading.Event()
    buffer: queue.Queue[object] = queue.Queue(depth)

    def put(value: object) -> None:
        while not stop.is_set():
            try:
                buffer.put(value, timeout=0.2)
                return
            except queue.Full:
                continue  # the reader is busy, or has left and will set `stop`

    def fill() -> None:
        try:
            for item in items:
                put(item)
                if stop.is_set():
                    return
            put(done)
        except BaseException as error:  # handed over to the reader, whatever it is
            put(error)

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    try:
        while (value := buffer.get()) is not done:
            if isinstance(value, BaseException):
                raise value
            yield value  # type: ignore[misc]
    finally:
        stop.set()
        thread.join()  # a thread that is within torch while Python ends would abort the process
