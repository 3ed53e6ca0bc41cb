"""Decodes pictures into squares, and does so in threads without losing the order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import numpy as np
import torch

from recap.core.errors import ConfigError
from recap.data.files.images import ImageSource

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
) -> tuple[list[tuple[int, int]], torch.Tensor]:
    """Return original sizes (width, height) and pictures uint8 [B, edge, edge, 3].

    Pictures are squashed to a square, not cropped: the captions speak of the whole picture.
    """
    pictures = np.empty((len(files), edge, edge, 3), np.uint8)
    sizes = []
    for place, file in enumerate(files):
        picture = source.open_rgb(file)
        sizes.append(picture.size)
        if picture.size != (edge, edge):
            picture = picture.resize((edge, edge), resample)
        pictures[place] = np.asarray(picture)
    return sizes, torch.from_numpy(pictures)


def batches(groups: Iterable[Sequence[int]], size: int) -> Iterator[list[int]]:
    """Cut each group into batches, none of which reaches over the end of its group.

    So the content of a batch does not depend on where an interrupted run was resumed.
    """
    for group in groups:
        for start in range(0, len(group), size):
            yield list(group[start : start + size])


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
