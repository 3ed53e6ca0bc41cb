"""Five true captions of a scene, from a seeded grammar.

All five say how many objects there are, their colours, textures and shapes, and where they lie; size and background
are said by most. Words and order vary, so that references agree in substance and a metric over them means something.
"""

from __future__ import annotations

import numpy as np

from recap.core.errors import DataError
from recap.data.datasets.scenes.layout import Group, Scene, pick

CAPTIONS = 5
LENGTHS = (5, 16)
_NUMBERS = ("no", "one", "two", "three", "four", "five")
_SHAPES = {"circle": ("circle", "disc"), "ring": ("ring", "hoop"), "cross": ("cross", "plus sign")}
_SIZES = {"small": ("small", "little"), "large": ("large", "big")}
_TEXTURES = {"striped": ("striped", "with white stripes"), "dotted": ("dotted", "with white dots")}
_GROUNDS = {
    "white": ("on a white background", "in front of a white wall"),
    "grey": ("on a grey background", "in front of a grey wall"),
    "black": ("on a black background", "on a dark background"),
    "striped": ("on a striped background", "in front of a striped wall"),
    "checkered": ("on a checkered background", "in front of a checkered wall"),
}
_SPOTS = {
    "top left": ("in the top left corner", "in the upper left corner"),
    "top right": ("in the top right corner", "in the upper right corner"),
    "bottom left": ("in the bottom left corner", "in the lower left corner"),
    "bottom right": ("in the bottom right corner", "in the lower right corner"),
    "centre": ("in the centre", "in the middle"),
}
_PAIRS = {"row": ("side by side", "next to each other"), "column": ("one above the other", "one below the other")}
_LINES = {
    "row": ("in a row", "lined up in a row"),
    "column": ("in a column", "stacked in a column"),
    "scattered": ("spread out", "scattered around"),
}
_RELATIONS = {
    "left": ("to the left of", "left of"),
    "right": ("to the right of", "right of"),
    "above": ("above", "over"),
    "below": ("below", "under"),
}
_OPPOSITE = {"left": "right", "above": "below"}
_SIDES = {"left": ("on the left", "on the right"), "above": ("at the top", "at the bottom")}
_OPENINGS = ("a picture of", "an image of", "a drawing of")


def describe(scene: Scene, *, random: np.random.Generator) -> list[str]:
    """Return five different captions of 5 to 16 words, in lower case, without punctuation.

    Raises:
        DataError: the grammar finds no five (a fault of the grammar).
    """
    captions: list[str] = []
    for _ in range(400):
        caption = _group_caption(scene, random) if len(scene.groups) == 1 else _relation_caption(scene, random)
        if LENGTHS[0] <= len(caption.split()) <= LENGTHS[1] and caption not in captions:
            captions.append(caption)
        if len(captions) == CAPTIONS:
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
    return f"{pick(random, _OPENINGS)} {things} {place} {ground}".strip()


def _relation_caption(scene: Scene, random: np.random.Generator) -> str:
    """Caption two groups; three of four start with the left or upper one."""
    first, second = scene.groups
    relation = scene.arrangement
    ground = _ground(scene, random)
    if random.random() < 0.12:
        sides = _SIDES[relation]
        return f"{_noun_phrase(first, random)} {sides[0]} and {_noun_phrase(second, random)} {sides[1]}"
    if random.random() < 0.25:
        first, second, relation = second, first, _OPPOSITE[relation]
    subject, target = _noun_phrase(first, random), _noun_phrase(second, random)
    link = _mostly_first(random, _RELATIONS[relation])
    kind = random.random()
    if kind < 0.6:
        return f"{subject} {link} {target} {ground}".strip()
    if kind < 0.8:
        return f"there {_be(first)} {subject} {link} {target} {ground}".strip()
    if kind < 0.93:
        return f"{subject} {_be(first)} {link} {target} {ground}".strip()
    return f"{pick(random, _OPENINGS)} {subject} {link} {target} {ground}".strip()


def _place(scene: Scene, random: np.random.Generator) -> str:
    count = scene.groups[0].count
    if count == 1:
        spot = _mostly_first(random, _SPOTS[scene.arrangement])
        return f"{spot} of the picture" if random.random() < 0.15 else spot
    ways = _PAIRS if count == 2 else _LINES
    return _mostly_first(random, ways[scene.arrangement])


def _ground(scene: Scene, random: np.random.Generator) -> str:
    return _mostly_first(random, _GROUNDS[scene.background]) if random.random() < 0.6 else ""


def _noun_phrase(group: Group, random: np.random.Generator) -> str:
    """Return e.g. "two small red circles with white dots"; the size is said four times of five."""
    noun = _mostly_first(random, _SHAPES.get(group.shape, (group.shape,)))
    size = _mostly_first(random, _SIZES[group.size]) if random.random() < 0.8 else ""
    before = after = ""
    if group.texture != "plain":
        texture = _mostly_first(random, _TEXTURES[group.texture])
        before, after = ("", texture) if texture.startswith("with") else (texture, "")
    words = " ".join(part for part in (size, group.colour, before, noun) if part)
    plural = "" if group.count == 1 else "es" if words.endswith("s") else "s"
    return f"{_number(group.count, words, random)} {words}{plural} {after}".strip()


def _number(count: int, following: str, random: np.random.Generator) -> str:
    if count == 1:
        return "one" if random.random() < 0.08 else "an" if following[0] in "aeiou" else "a"
    return "a pair of" if count == 2 and random.random() < 0.1 else _NUMBERS[count]


def _be(group: Group) -> str:
    return "is" if group.count == 1 else "are"


def _mostly_first(random: np.random.Generator, forms: tuple[str, ...]) -> str:
    """Return the usual form four times of five."""
    return forms[0] if len(forms) == 1 or random.random() < 0.8 else pick(random, forms[1:])
