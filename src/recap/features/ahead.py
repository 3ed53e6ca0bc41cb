"""Work ahead of whoever asks for its results: in threads, in the order that is asked for, in batches of a kind."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_WAITING = 8  # batches of items that wait at most for others of their key


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


def in_order(function: Callable[[Item], Result], items: Iterable[Item], *, threads: int) -> Iterator[Result]:
    """Yield ``function(item)`` for each item, in order, computed by threads that run a few items ahead.

    Decoding and torch both release Python's lock. Threads with a batch each do not wait for one another, where several
    threads inside one operator do: on a busy machine that costs a factor of five.
    """
    waiting: deque[Future[Result]] = deque()
    remaining = iter(items)
    with ThreadPoolExecutor(threads) as pool:
        try:
            waiting.extend(pool.submit(function, item) for item in islice(remaining, 2 * threads))
            while waiting:
                yield waiting.popleft().result()
                waiting.extend(pool.submit(function, item) for item in islice(remaining, 1))
        finally:
            pool.shutdown(cancel_futures=True)


def alike(
    items: Iterable[Item],
    size: int,
    *,
    key: Callable[[Item], Hashable] = lambda item: None,
    weight: Callable[[Item], int] = lambda item: 1,
    most: int | None = None,
) -> Iterator[list[Item]]:
    """Yield items of one key in lists whose weights reach ``size``.

    When ``most`` items wait for others of their key, those that wait with the oldest one are yielded as they are.
    """
    waiting: dict[Hashable, list[Item]] = {}  # the key of the oldest item is first
    for item in items:
        batch = waiting.setdefault(key(item), [])
        batch.append(item)
        if sum(map(weight, batch)) >= size:
            yield waiting.pop(key(item))
        elif sum(map(len, waiting.values())) == (most or _WAITING * size):
            yield waiting.pop(next(iter(waiting)))
    yield from waiting.values()
