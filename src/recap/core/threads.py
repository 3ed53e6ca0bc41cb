"""Iterators that work in threads, ahead of their reader and in order, and that make batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import islice, repeat
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

WAITING = 8  # batches of items that wait at most for others of their key


def prefetch(items: Iterator[Item], depth: int = 2) -> Generator[Item]:
    """Yield the items of an iterator that a thread keeps `depth` ahead of.

    Its errors are raised here.
    """
    end = object()
    with closing(
        map_in_threads(lambda _: next(items, end), repeat(None), threads=1, depth=depth)
    ) as ahead:
        for item in ahead:
            if item is end:
                return
            yield item  # type: ignore[misc]


def map_in_threads(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    threads: int,
    depth: int | None = None,
) -> Generator[Result]:
    """Yield ``function(item)`` for each item, in order,
    computed by threads that run `depth` items ahead.

    Decoding and torch both release Python's lock. Threads with a batch each do not wait for one
    another, where several threads inside one operator do: on a busy machine that costs a factor of
    five.
    """
    waiting: deque[Future[Result]] = deque()
    remaining = iter(items)
    # A thread that is within torch while Python ends would abort the process:
    # the pool waits for its threads.
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in islice(remaining, 2 * threads if depth is None else depth + 1):
                waiting.append(pool.submit(function, item))
            while waiting:
                yield waiting.popleft().result()
                waiting.extend(pool.submit(function, item) for item in islice(remaining, 1))
        finally:
            pool.shutdown(cancel_futures=True)


def batched_by_key(
    items: Iterable[Item],
    size: int,
    *,
    key: Callable[[Item], Hashable] = lambda item: None,
    weight: Callable[[Item], int] = lambda item: 1,
) -> Iterator[list[Item]]:
    """Yield items of one key in lists whose weights reach ``size``.

    When `WAITING` times as many items wait for others of their key, those that wait with the oldest
    one are yielded as they are.
    """
    waiting: dict[Hashable, list[Item]] = {}  # the key of the oldest item is first
    for item in items:
        batch = waiting.setdefault(key(item), [])
        batch.append(item)
        if sum(map(weight, batch)) >= size:
            yield waiting.pop(key(item))
        elif sum(map(len, waiting.values())) == WAITING * size:
            yield waiting.pop(next(iter(waiting)))
    yield from waiting.values()
