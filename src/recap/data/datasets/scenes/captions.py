"""Five true captions of a scene, from a seeded grammar.

All five say how many objects there are, their colours, textures and shapes, and where they lie; size and background
are said by most. Words and order vary, so that references agree in substance and a metric over them means something.
"""

from __future__ import annotations

import numpy as np

from recap.core.errors import DataError
from recap.data.datasets.scenes.layout import Group, Scene, pick
from recap.settings.datasets import SCENE_CAPTIONS

LENGTHS = (5, 16)
NUMBERS = ("no", "one", "two", "three", "four", "five")
PAIR = "a pair of"
SHAPE_NAMES = {"circle": ("circle", "disc"), "ring": ("ring", "hoop"), "cross": ("cross", "plus sign")}
SIZE_NAMES = {"small": ("small", "little"), "large": ("large", "big")}
TEXTURE_NAMES = {"striped": ("striped", "with white stripes"), "dotted": ("dotted", "with white dots")}
GROUNDS = {
    "white": ("on a white background", "in front of a white wall"),
    "grey": ("on a grey background", "in front of a grey wall"),
    "black": ("on a black background", "on a dark background"),
    "striped": ("on a striped background", "in front of a striped wall"),
    "checkered": ("on a checkered background", "in front of a checkered wall"),
}
SPOT_NAMES = {
    "top left": ("in the top left corner", "in the upper left corner"),
    "top right": ("in the top right corner", "in the upper right corner"),
    "bottom left": ("in the bottom left corner", "in the lower left corner"),
    "bottom right": ("in the bottom right corner", "in the lower right corner"),
    "centre": ("in the centre", "in the middle"),
}
PAIRS = {"row": ("side by side", "next to each other"), "column": ("one above the other", "one below the other")}
LINES = {
    "row": ("in a row", "lined up in a row"),
    "column": ("in a column", "stacked in a column"),
    "scattered": ("spread out", "scattered around"),
}
RELATIONS = {
    "left": ("to the left of", "left of"),
    "right": ("to the right of", "right of"),
    "above": ("above", "over"),
    "below": ("below", "under"),
}
OPPOSITE = {"left": "right", "above": "below"}
SIDES = {"left": ("on the left", "on the right"), "above": ("at the top", "at the bottom")}
OPENINGS = ("a picture of", "an image of", "a drawing of")


def describe(scene: Scene, *, random: np.random.Generator) -> list[str]:
    """Return five different captions of 5 to 16 words, in lower case, without punctuation."""
    captions: list[str] = []
    for _ in range(400):
        caption = _group_caption(scene, random) if len(scene.groups) == 1 else _relation_caption(scene, random)
        if LENGTHS[0] <= len(caption.split()) <= LENGTHS[1] and caption not in captions:
            captions.append(caption)
        if len(captions) == SCENE_CAPTIONS:
            return captions
    raise DataError(f"scene {scene.description!r}: fewer than five captions; widen the grammar in scene_captions.py")


def _group_caption(scene: Scene, random: np.random.Generator) -> str:
    """Caption one group: what and how many, where or how arranged, mostly the background."""
    group = scene.groups[0]
    place = _place(scene, random)
    ground = _ground(scene, random)
    things = _noun_phrase(group, random)
    kind = random.random()
    if kind < 0.5:
        return f"{things} {place} {ground}".strip()
    if kind < 0.75:
        return f"there {_be(group)} {things} {place} {ground}".strip()
    if kind < 0.85 and group.count == 1:
        return f"{place} there is {things} {ground}".strip()
    if kind < 0.85 and group.count > 2 and scene.arrangement in ("row", "column"):
        return f"a {scene.arrangement} of {_noun_phrase(group, random)} {ground}".strip()
    if kind < 0.92:
        return f"{things} {_be(group)} {place} {ground}".strip()
    return f"{pick(random, OPENINGS)} {things} {place} {ground}".strip()


def _relation_caption(scene: Scene, random: np.random.Generator) -> str:
    """Caption two groups; three of four start with the left or upper one."""
    first, second = scene.groups
    relation = scene.arrangement
    ground = _ground(scene, random)
    if random.random() < 0.12:
        sides = SIDES[relation]
        return f"{_noun_phrase(first, random)} {sides[0]} and {_noun_phrase(second, random)} {sides[1]}"
    if random.random() < 0.25:
        first, second, relation = second, first, OPPOSITE[relation]
    subject, target = _noun_phrase(first, random), _noun_phrase(second, random)
    link = _mostly_first(random, RELATIONS[relation])
    kind = random.random()
    if kind < 0.6:
        return f"{subject} {link} {target} {ground}".strip()
    if kind < 0.8:
        return f"there {_be(first)} {subject} {link} {target} {ground}".strip()
    if kind < 0.93:
        return f"{subject} {_be(first)} {link} {target} {ground}".strip()
    return f"{pick(random, OPENINGS)} {subject} {link} {target} {ground}".strip()


def _place(scene: Scene, random: np.random.Generator) -> str:
    count = scene.groups[0].count
    if count == 1:
        spot = _mostly_first(random, SPOT_NAMES[scene.arrangement])
        return f"{spot} of the picture" if random.random() < 0.15 else spot
    ways = PAIRS if count == 2 else LINES
    return _mostly_first(random, ways[scene.arrangement])


def _ground(scene: Scene, random: np.random.Generator) -> str:
    return _mostly_first(random, GROUNDS[scene.background]) if random.random() < 0.6 else ""


def _noun_phrase(group: Group, random: np.random.Generator) -> str:
    """Return e.g. "two small red circles with white dots"; the size is said four times of five."""
    noun = _mostly_first(random, SHAPE_NAMES.get(group.shape, (group.shape,)))
    size = _mostly_first(random, SIZE_NAMES[group.size]) if random.random() < 0.8 else ""
    before = after = ""
    if group.texture != "plain":
        texture = _mostly_first(random, TEXTURE_NAMES[group.texture])
        before, after = ("", texture) if texture.startswith("with") else (texture, "")
    words = " ".join(part for part in (size, group.colour, before, noun) if part)
    words = words if group.count == 1 else plural(words)
    return f"{_number(group.count, words, random)} {words} {after}".strip()


def plural(words: str) -> str:
    """Return a noun, with what stands before it, in the plural."""
    return f"{words}es" if words.endswith("s") else f"{words}s"


def article(following: str) -> str:
    """Return "a" or "an"."""
    return "an" if following[0] in "aeiou" else "a"


def _number(count: int, following: str, random: np.random.Generator) -> str:
    if count == 1:
        return "one" if random.random() < 0.08 else article(following)
    return PAIR if count == 2 and random.random() < 0.1 else NUMBERS[count]


def _be(group: Group) -> str:
    return "is" if group.count == 1 else "are"


def _mostly_first(random: np.random.Generator, forms: tuple[str, ...]) -> str:
    """Return the usual form four times of five."""
    return forms[0] if len(forms) == 1 or random.random() < 0.8 else pick(random, forms[1:])
