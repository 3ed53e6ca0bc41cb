"""Gold items: their right answers are known, so that they show who clicks at random."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from recap.core.errors import DataError
from recap.core.hashing import generator
from recap.reporting.text import plain
from recap.settings import Study
from recap.studies.sheets import BEST, Item

_CANDIDATES = 200  # captions of other images among which those with the fewest common words are taken


def gold_items(study: Study, references: Mapping[int, list[str]], taken: set[int]) -> list[Item]:
    """Return the gold items of a study, the same for every rater; their pictures are still to be added.

    Preference: a caption of the image among captions of other images. Questions: a caption of the image and of another
    image in turn. Captions of other images share as few words as possible with the references of the image.

    Args:
        study: the study.
        references: image id -> reference captions, of the test split.
        taken: images that raters see with captions of the systems.
    """
    random = generator(study.seed, "study", "gold")
    images = _images(study, references, taken, random)
    items = []
    for place, image in enumerate(images):
        own = plain(study.gold.captions.get(image, "")) or str(random.choice(references[image]))
        if study.kind == "preference":
            captions = [own, *_of_others(image, references, len(study.systems) - 1, random)]
            order = random.permutation(len(captions))
            right = {BEST: str(1 + order.tolist().index(0))}
            captions = [captions[index] for index in order]
        else:
            shown = "own" if place % 2 == 0 else "other"
            captions = [own] if shown == "own" else _of_others(image, references, 1, random)
            answers = {question.id: getattr(question.gold, shown) for question in study.questions}
            right = {question: answer for question, answer in answers.items() if answer is not None}
        items.append(Item(image_id=image, captions=captions, pictures=[], right=right))
    return items


def _images(
    study: Study, references: Mapping[int, list[str]], taken: set[int], random: np.random.Generator
) -> list[int]:
    """Return the images of gold items: those with a verified caption, and others that raters do not see otherwise."""
    verified = sorted(study.gold.captions)
    for image in verified:
        if image not in references:
            raise DataError(f"gold.captions: image {image} is not in the test split; name one that is")
    free = sorted(set(references) - taken - set(verified))
    more = max(0, study.gold.count - len(verified))
    if more > len(free):
        raise DataError(
            f"{study.gold.count} gold items need as many images beside those of the study, but the test split has "
            f"{len(free)} left; lower `images` or `gold.count`"
        )
    return verified[: study.gold.count] + [free[index] for index in random.permutation(len(free))[:more]]


def _of_others(image: int, references: Mapping[int, list[str]], count: int, random: np.random.Generator) -> list[str]:
    """Return captions of other images, each of another one, with the fewest words in common with an image's own."""
    own = {word for caption in references[image] for word in caption.lower().split()}
    others = sorted(set(references) - {image})
    drawn = [others[index] for index in random.permutation(len(others))[:_CANDIDATES]]
    captions = [str(random.choice(references[other])) for other in drawn]
    if len(captions) < count:
        raise DataError(f"gold items need captions of {count} other images, but the split has {len(captions)}")
    common = [len(own & set(caption.lower().split())) for caption in captions]
    return [captions[index] for index in np.argsort(common, kind="stable")[:count]]
