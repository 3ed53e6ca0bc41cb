"""Who rates what: images to raters, systems to positions, balanced by Latin squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recap.core.hashing import generator


@dataclass(frozen=True)
class Task:
    """One image of one setup, and the systems whose captions of it a rater sees, in the order shown."""

    setup: str
    image_id: int
    systems: tuple[str, ...]


def latin_square(size: int) -> list[list[int]]:
    """Return orders of ``0 .. size-1`` in which each number stands equally often at each position.

    Also each number follows each other one equally often (Williams, 1949): of an even size there are ``size`` orders,
    of an odd one twice as many.
    """
    first = [0]
    for step in range(1, size):
        first.append((step + 1) // 2 if step % 2 else size - step // 2)
    square = [[(number + row) % size for number in first] for row in range(size)]
    return square if size % 2 == 0 else square + [order[::-1] for order in square]


def preference_tasks(
    images: dict[str, list[int]], systems: list[str], *, raters: int, items: int, seed: int
) -> list[list[Task]]:
    """Return the tasks of each rater of a preference study; every image is seen by ``raters`` different raters.

    Args:
        images: setup -> image ids.
        systems: all of them are shown for each image.
        raters: per image.
        items: most tasks of one rater.
        seed: of the order of images; the orders of captions come from a Latin square.
    """
    pairs = [(setup, image) for setup, ids in images.items() for image in ids]
    square = latin_square(len(systems))
    lists: list[list[Task]] = []
    for repetition in range(raters):
        random = generator(seed, "study", "images", repetition)
        for block in _blocks(random.permutation(len(pairs)), items):
            # The raters of one image begin at different rows of the square, and so does each rater's next image.
            orders = random.permutation(len(square))
            tasks = []
            for place, index in enumerate(block):
                order = square[orders[(place + repetition) % len(square)]]
                setup, image = pairs[index]
                tasks.append(Task(setup, image, tuple(systems[number] for number in order)))
            lists.append(tasks)
    return lists


def question_tasks(
    images: list[int], systems: list[str], *, setup: str, raters: int, items: int, seed: int
) -> list[list[Task]]:
    """Return the tasks of each rater of a study with questions about single captions.

    Images are divided into groups of at most ``items``; as many raters as there are systems see a group, each image
    with another system's caption: every rater sees an image once and all systems equally often.
    """
    lists: list[list[Task]] = []
    for repetition in range(raters):
        random = generator(seed, "study", "images", repetition)
        for block in _blocks(random.permutation(len(images)), items):
            for shift in range(len(systems)):
                pairs = [(images[index], systems[(place + shift) % len(systems)]) for place, index in enumerate(block)]
                order = random.permutation(len(pairs))
                lists.append([Task(setup, pairs[place][0], (pairs[place][1],)) for place in order])
    return lists


def _blocks(order: np.ndarray, most: int) -> list[np.ndarray]:
    """Return an order cut into pieces of nearly equal length, ``most`` or less."""
    return np.array_split(order, -(-len(order) // most))
