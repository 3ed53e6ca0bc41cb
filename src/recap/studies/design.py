"""Who rates what: images to raters, systems to positions by Latin squares, and gold items, whose answers are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from recap.core.errors import DataError
from recap.core.hashing import generator
from recap.settings import Study
from recap.studies.sheets import BEST, Item
from recap.tables.text import plain

_CANDIDATES = 200  # captions of other images among which those with the fewest common words are taken


def latin_square(size: int) -> list[list[int]]:
    """Return orders of ``0 .. size-1`` in which each number stands equally often at each position.

    Also each number follows each other one equally often (Williams, 1949): of an even size there are ``size`` orders,
    of an odd one twice as many.
    """
    first = [0] + [(step + 1) // 2 if step % 2 else size - step // 2 for step in range(1, size)]
    square = [[(number + row) % size for number in first] for row in range(size)]
    return square if size % 2 == 0 else square + [order[::-1] for order in square]


def study_items(study: Study, test_images: Sequence[int]) -> list[list[Item]]:
    """Return the items of each rater, still without captions and pictures; each setup has other ``test_images``.

    The images are divided into groups of nearly equal size, at most ``study.items``, anew for each of ``study.raters``
    repetitions. In a preference study one rater sees a group, with the captions of all systems. Else as many raters as
    there are systems do, each image with another system's caption.
    """
    count = study.images * len(study.setups)
    if count > len(test_images):
        raise DataError(
            f"the study draws {study.images} other images for each of {len(study.setups)} setups, but the test split "
            f"has {len(test_images)}; lower `images`"
        )
    drawn = generator(study.seed, "study", "draw").permutation(len(test_images))[:count]
    images = [(study.setups[place // study.images].id, test_images[index]) for place, index in enumerate(drawn)]
    systems = [system.id for system in study.systems]
    square = latin_square(len(systems))
    raters = []
    for repetition in range(study.raters):
        random = generator(study.seed, "study", "images", repetition)
        for group in np.array_split(random.permutation(count), -(-count // study.items)):
            shown = [images[index] for index in group]
            if study.kind == "preference":
                # The raters of one image begin at different rows of the square, and so does each rater's next image.
                rows = random.permutation(len(square))
                orders = [square[rows[(place + repetition) % len(square)]] for place in range(len(shown))]
                chosen = [[systems[number] for number in order] for order in orders]
                raters.append([_item(setup, image, own) for (setup, image), own in zip(shown, chosen, strict=True)])
                continue
            for shift in range(len(systems)):
                order = [systems[(place + shift) % len(systems)] for place in range(len(shown))]
                items = [_item(setup, image, [own]) for (setup, image), own in zip(shown, order, strict=True)]
                raters.append([items[place] for place in random.permutation(len(items))])
    return raters


def _item(setup: str, image: int, systems: list[str]) -> Item:
    return Item(image_id=image, setup=setup, systems=systems, captions=[], pictures=[])


def gold_items(study: Study, references: Mapping[int, list[str]], used: set[int]) -> list[Item]:
    """Return the gold items of a study, the same for every rater; their pictures are still to be added.

    Their images are those with a verified caption, and others that are not ``used`` with captions of the systems.
    Preference: a caption of the image among captions of other images. Questions: a caption of the image and of another
    image in turn.
    """
    random = generator(study.seed, "study", "gold")
    verified = study.gold.captions
    if unknown := [image for image in verified if image not in references]:
        raise DataError(f"gold.captions: image {unknown[0]} is not in the test split; name one that is")
    images = sorted(verified)[: study.gold.count]
    free = sorted(references.keys() - used - verified.keys())
    if study.gold.count - len(images) > len(free):
        raise DataError(
            f"{study.gold.count} gold items need as many images beside those of the study, but the test split has "
            f"{len(free)} left; lower `images` or `gold.count`"
        )
    images += [free[index] for index in random.permutation(len(free))[: study.gold.count - len(images)]]
    items = []
    for place, image in enumerate(images):
        own = plain(verified.get(image, "")) or str(random.choice(references[image]))
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
