"""The invented pictures and captions behind all miniature files, the same in each of them."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

_COLORS = ("red", "blue", "green", "white", "black", "brown")
_THINGS = ("dog", "cat", "man", "woman", "train", "bird", "horse", "boat")
_VERBS = ("sits", "stands", "waits", "rests", "moves")
_PLACES = ("grass", "sand", "street", "table", "water", "snow")
# The small words of COCO's captions: recipes name some on which no caption may end.
_ENDS = (
    "for an hour in May",
    "at the end of it",
    "before or after it is dark",
    "with others that are close to it",
    "upon which I am told",
)
_VAL2014 = 500_000  # ids of pictures of val2014 and of test2014 start here
_TEST2014 = 600_000
CAPTIONS = 5  # captions of a photo of COCO


@dataclass(frozen=True)
class Photo:
    """One picture of COCO: ``part`` is train2014, val2014 or test2014, ``split`` Karpathy's."""

    image_id: int
    part: str
    split: str

    @property
    def file(self) -> str:
        return f"COCO_{self.part}_{self.image_id:012d}.jpg"

    @property
    def size(self) -> tuple[int, int]:
        return size_of(self.image_id)

    @property
    def captions(self) -> list[str]:
        return [sentence(self.image_id, number) for number in range(CAPTIONS)]

    def jpeg(self) -> bytes:
        return picture(self.image_id, self.size)


@dataclass(frozen=True)
class World:
    """How many pictures there are."""

    train: int  # training photos of COCO; some of them lie in val2014, as Karpathy's split has it
    held_out: int  # photos of each other split, and of test2014
    web: int  # training rows of Conceptual Captions
    studies: int  # training studies of X-rays
    address: str  # of the server that has the pictures of web pages

    @cached_property
    def photos(self) -> list[Photo]:
        """The photos that have captions."""
        rest = ceil(self.train / 4)
        training = [Photo(9 + number, "train2014", "train") for number in range(self.train - rest)]
        splits = ["restval"] * rest + ["val"] * self.held_out + ["test"] * self.held_out
        return training + [
            Photo(_VAL2014 + number, "val2014", split) for number, split in enumerate(splits)
        ]

    @cached_property
    def server_photos(self) -> list[Photo]:
        """The photos of test2014, whose captions nobody has."""
        return [Photo(_TEST2014 + number, "test2014", "server") for number in range(self.held_out)]

    def part(self, name: str) -> list[Photo]:
        return [photo for photo in (*self.photos, *self.server_photos) if photo.part == name]

    def split(self, *names: str) -> list[Photo]:
        return [photo for photo in self.photos if photo.split in names]


def size_of(image_id: int) -> tuple[int, int]:
    """Return width and height in pixels: some pictures are wide, some high."""
    return (96, 72) if image_id % 3 else (72, 96)


def sentence(number: int, way: int = 0) -> str:
    """Return a caption of a picture; each ``way`` says something else."""
    draw = _words(number, way)
    place, end = draw(_PLACES), _ENDS[way % len(_ENDS)]
    return (
        f"A {draw(_COLORS)} {draw(_THINGS)} {draw(_VERBS)} on the {place} near a {draw(_THINGS)} "
        f"{end}."
    )


def report(number: int) -> str:
    """Return the findings of a study, in several sentences."""
    draw = _words(number, 0)
    sizes, sides = ("normal", "enlarged", "stable"), ("left", "right", "lower", "upper")
    return (
        f"The heart is {draw(sizes)} in size. The {draw(sides)} lung is clear. "
        f"No nodule is seen in the {draw(sides)} zone; the mediastinum is {draw(sizes)}."
    )


def _words(number: int, way: int) -> Callable[[Sequence[str]], str]:
    random = np.random.default_rng((number, way))
    return lambda words: words[int(random.integers(len(words)))]


def picture(number: int, size: tuple[int, int], *, kind: str = "JPEG", gray: bool = False) -> bytes:
    """Return the bytes of a picture whose bars and colors depend on a number."""
    from PIL import Image

    random = np.random.default_rng(number)
    width, height = size
    pixels = np.full((height, width, 3), random.integers(256, size=3), np.uint8)
    for _ in range(3):
        left, top = int(random.integers(width)), int(random.integers(height))
        pixels[top : top + height // 2, left : left + width // 2] = random.integers(256, size=3)
    content = io.BytesIO()
    Image.fromarray(pixels).convert("L" if gray else "RGB").save(content, format=kind)
    return content.getvalue()


def boxes(photo: Photo, count: int) -> np.ndarray:
    """Return boxes float32 [count, 4] inside a photo: left, top, right, bottom in pixels."""
    random = np.random.default_rng((photo.image_id, count))
    low = random.uniform(0, 0.5, (count, 2))
    high = low + random.uniform(0.2, 0.5, (count, 2))
    return (np.concatenate([low, high], 1) * (*photo.size, *photo.size)).astype(np.float32)


def vectors(number: int, count: int, width: int) -> np.ndarray:
    """Return vectors float32 [count, width] like those after a ReLU,
    of which many numbers are zero."""
    random = np.random.default_rng((number, count, width))
    return np.maximum(random.standard_normal((count, width)), 0).astype(np.float32)
