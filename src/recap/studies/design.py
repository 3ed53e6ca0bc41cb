"""Who rates what: images to raters, systems to positions by Latin squares, and gold items, whose answers are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from recap.core.errors import DataError
from recap.core.hashing import generator
from recap.settings import Study
from recap.studies.sheets import BEST, Item
from recap.tables.text import plain

_CANDIDATES = 200  # captions of other images among which those with the fewest common words are taken


class Task(NamedTuple):
    """One image of one setup, and the systems whose captions of it a rater sees, in the order shown."""

    setup: str
    image_id: int
    systems: tuple[str, ...]


def latin_square(size: int) -> list[list[int]]:
    """Return orders of ``0 .. size-1`` in which each number stands equally often at each position.

    Also each number follows each other one equally often (Williams, 1949): of an even size there are ``size`` orders,
    of an odd one twice as many.
    """
    first = [0] + [(step + 1) // 2 if step % 2 else size - step // 2 for step in range(1, size)]
    square = [[(number + row) % size for number in first] for row in range(size)]
    return square if size % 2 == 0 else square + [order[::-1] for order in square]


def study_tasks(study: Study, test_images: Sequence[int]) -> list[list[Task]]:
    """Return the tasks of each rater of a study; its images are drawn from ``test_images``, others for each setup."""
    count = study.images * len(study.setups)
    if count > len(test_images):
        raise DataError(
            f"the study draws {study.images} other images for each of {len(study.setups)} setups, but the test split "
            f"has {len(test_images)}; lower `images`"
        )
    order = generator(study.seed, "study", "draw").permutation(len(test_images))[:count]
    pairs = [(study.setups[place // study.images].id, test_images[index]) for place, index in enumerate(order)]
    systems = [system.id for system in study.systems]
    tasks = preference_tasks if study.kind == "preference" else question_tasks
    return tasks(pairs, systems, raters=study.raters, items=study.items, seed=study.seed)


def preference_tasks(
    pairs: Sequence[tuple[str, int]], systems: Sequence[str], *, raters: int, items: int, seed: int
) -> list[list[Task]]:
    """Return the tasks of each rater of a preference study: at most ``items``, with the captions of all systems.

    Every one of the ``pairs`` of setup and image is seen by ``raters`` different raters.
    """
    square = latin_square(len(systems))
    lists: list[list[Task]] = []
    for repetition, random, block in _blocks(len(pairs), raters, items, seed):
        # The raters of one image begin at different rows of the square, and so does each rater's next image.
        orders = random.permutation(len(square))
        rows = [square[orders[(place + repetition) % len(square)]] for place in range(len(block))]
        shown = [tuple(systems[number] for number in row) for row in rows]
        lists.append([Task(*pairs[index], order) for index, order in zip(block, shown, strict=True)])
    return lists


def question_tasks(
    pairs: Sequence[tuple[str, int]], systems: Sequence[str], *, raters: int, items: int, seed: int
) -> list[list[Task]]:
    """Return the tasks of each rater of a study with questions about single captions.

    Images are divided into groups of at most ``items``; as many raters as there are systems see a group, each image
    with another system's caption: every rater sees an image once and all systems equally often.
    """
    lists: list[list[Task]] = []
    for _, random, block in _blocks(len(pairs), raters, items, seed):
        for shift in range(len(systems)):
            tasks = [Task(*pairs[i], (systems[(place + shift) % len(systems)],)) for place, i in enumerate(block)]
            lists.append([tasks[place] for place in random.permutation(len(tasks))])
    return lists


def _blocks(images: int, raters: int, most: int, seed: int) -> Iterator[tuple[int, np.random.Generator, Sequence[int]]]:
    """Yield groups of images of nearly equal size, ``most`` or less, once for each rater of an image."""
    for repetition in range(raters):
        random = generator(seed, "study", "images", repetition)
        for block in np.array_split(random.permutation(images), -(-images // most)):
            yield repetition, random, block.tolist()


def gold_items(study: Study, references: Mapping[int, list[str]], used: set[int]) -> list[Item]:
    """Return the gold items of a study, the same for every rater; their pictures are still to be added.

    Preference: a caption of the image among captions of other images. Questions: a caption of the image and of another
    image in turn. Captions of other images share as few words as possible with the ``references`` of the image. Its
    images are those with a verified caption, and others that are not ``used`` with captions of the systems.
    """
    random = generator(study.seed, "study", "gold")
    images = sorted(study.gold.captions)[: study.gold.count]
    for image in study.gold.captions:
        if image not in references:
            raise DataError(f"gold.captions: image {image} is not in the test split; name one that is")
    free = sorted(set(references) - used - set(study.gold.captions))
    if study.gold.count - len(images) > len(free):
        raise DataError(
            f"{study.gold.count} gold items need as many images beside those of the study, but the test split has "
            f"{len(free)} left; lower `images` or `gold.count`"
        )
    images += [free[index] for index in random.permutation(len(free))[: study.gold.count - len(images)]]
    items = []
    for place, image in enumerate(images):
        own = plain(study.gold.captions.get(image, "")) or str(random.choice(references[image]))
        if study.kind == "preference":
            captions = [own, *_of_others(image, references, len(study.systems) - 1, random)]
            order = random.permutation(len(captions)).tolist()
            captions, right = [captions[index] for index in order], {BEST: str(1 + order.index(0))}
        else:
            shown = "own" if place % 2 == 0 else "other"
            captions = [own] if shown == "own" else _of_others(image, references, 1, random)
            answers = {question.id: getattr(question.gold, shown) for question in study.questions}
            right = {question: answer for question, answer in answers.items() if answer is not None}
        items.append(Item(image_id=image, captions=captions, pictures=[], right=right))
    return items


def _of_others(image: int, references: Mapping[int, list[str]], count: int, random: np.random.Generator) -> list[str]:
    """Return captions of other images, each of another one, with the fewest words in common with an image's own."""
    own = {word for caption in references[image] for word in caption.lower().split()}
    others = sorted(set(references) - {image})
    sample = [others[index] for index in random.permutation(len(others))[:_CANDIDATES]]
    captions = [str(random.choice(references[other])) for other in sample]
    if len(captions) < count:
        raise DataError(f"gold items need captions of {count} other images, but the split has {len(captions)}")
    common = [len(own & set(caption.lower().split())) for caption in captions]
    return [captions[index] for index in np.argsort(common, kind="stable")[:count]]
