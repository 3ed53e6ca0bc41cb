"""Pictures as networks read them, and work that threads do ahead of who uses it, in order."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from torch import Tensor

from recap.core.errors import ConfigError
from recap.data.files.images import ImageSource

if TYPE_CHECKING:
    from PIL.Image import Image

INTERPOLATIONS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}  # Pillow's numbers

Item = TypeVar("Item")
Result = TypeVar("Result")


def resampling(interpolation: str) -> int:
    """Return Pillow's number of an interpolation by name."""
    if interpolation not in INTERPOLATIONS:
        raise ConfigError(f"pictures cannot be scaled by {interpolation!r}; known are {', '.join(INTERPOLATIONS)}")
    return INTERPOLATIONS[interpolation]


def decode(
    source: ImageSource, files: Sequence[str], *, edge: int, resample: int
) -> tuple[list[tuple[int, int]], Tensor]:
    """Return original sizes (width, height) and pictures uint8 [B, edge, edge, 3].

    Pictures are squashed to a square, not cropped: the captions speak of the whole picture.
    """
    pictures = np.empty((len(files), edge, edge, 3), np.uint8)
    sizes = []
    for place, file in enumerate(files):
        picture = source.open_rgb(file)
        sizes.append(picture.size)
        pictures[place] = np.asarray(
            picture if picture.size == (edge, edge) else picture.resize((edge, edge), resample)
        )
    return sizes, torch.from_numpy(pictures)


@dataclass(frozen=True)
class Resized:
    """A picture as a detector reads it: blue first, in the size that its training had."""

    image_id: int
    size: tuple[int, int]  #: width and height of the picture before
    pixels: Tensor  #: BGR uint8 [3, h, w]

    @staticmethod
    def of(image_id: int, picture: Image, *, short: int, long: int) -> Resized:
        """Resize an RGB picture so that its shorter side is ``short``, unless the longer one would pass ``long``."""
        width, height = picture.size
        scale = resize_scale(picture.size, short=short, long=long)
        resized = picture.resize((max(1, round(width * scale)), max(1, round(height * scale))), 2)  # bilinear
        pixels = torch.from_numpy(np.asarray(resized)[:, :, ::-1].copy()).permute(2, 0, 1)
        return Resized(image_id, (width, height), pixels)


def on_device(pictures: Sequence[Resized], device: torch.device) -> list[Tensor]:
    """Return the pixels of pictures of one size, brought to a device in one piece."""
    return list(torch.stack([each.pixels for each in pictures]).to(device))


def resize_scale(size: tuple[int, int], *, short: int, long: int) -> float:
    """Return the factor by which a picture of this width and height is resized."""
    return min(short / min(size), long / max(size))


def singly(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield each item alone."""
    return ([item] for item in items)


def in_batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield items in lists of a size; the last has the rest."""
    remaining = iter(items)
    return iter(lambda: list(islice(remaining, size)), [])


def alike(items: Iterable[Item], *, key: Callable[[Item], Hashable], size: int, most: int) -> Iterator[list[Item]]:
    """Yield items in lists of up to ``size`` that have the same key.

    When ``most`` items wait for others of their key, those that wait with the oldest one are yielded as they are.
    """
    waiting: dict[Hashable, list[Item]] = {}  # the key of the oldest item is first
    for item in items:
        own = waiting.setdefault(key(item), [])
        own.append(item)
        if len(own) == size:
            yield waiting.pop(key(item))
        elif sum(map(len, waiting.values())) == most:
            yield waiting.pop(next(iter(waiting)))
    yield from waiting.values()


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
