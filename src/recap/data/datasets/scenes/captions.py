"""Captions of the built-in scenes: how they are written, and which statements about a scene are true."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recap.core import checksums
from recap.core.documents import read_json
from recap.core.errors import DataError, MissingData
from recap.data.datasets.scenes.layout import COLOURS, SHAPES, Group, Scene, pick
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


@dataclass(frozen=True)
class Things:
    """A group of equal objects; in a caption ``size`` is None where none is said."""

    count: int
    size: str | None
    colour: str
    texture: str
    shape: str


@dataclass(frozen=True)
class Statement:
    """A scene, or what a caption says of one.

    ``arrangement`` is as of a `Scene`; ``background`` is None where none is said.
    """

    groups: tuple[Things, ...]
    arrangement: str
    background: str | None


def is_true(caption: str, scene: Statement) -> bool:
    """Return whether a caption is a sentence of the grammar and all that it says holds in a scene."""
    said = parse(caption)
    if said is None or said.arrangement != scene.arrangement or len(said.groups) != len(scene.groups):
        return False
    looks = zip(said.groups, scene.groups, strict=True)
    return said.background in (None, scene.background) and all(_fits(words, things) for words, things in looks)


def relation_is_true(caption: str, scene: Statement) -> bool:
    """Return whether a caption says of a scene's two groups which lies left of or above which, and is right about it.

    Numbers, sizes, textures and background do not count; colours and shapes tell which group is which, so that they
    may be wrong as long as each group said is more like its own than like the other. In a scene of one group nothing
    is related: there a caption is right if it says no relation.
    """
    said = parse(caption)
    if len(scene.groups) == 1:
        return said is not None and len(said.groups) == 1
    if said is None or len(said.groups) != 2 or said.arrangement != scene.arrangement:
        return False
    first, second = scene.groups
    as_drawn = _likeness(said.groups, (first, second))
    return as_drawn > _likeness(said.groups, (second, first))


def _likeness(said: tuple[Things, ...], groups: tuple[Things, Things]) -> int:
    """Return how many colours and shapes are as in these groups, in this order."""
    pairs = zip(said, groups, strict=True)
    return sum((one.colour == other.colour) + (one.shape == other.shape) for one, other in pairs)


def read_truth(boxes: Path) -> dict[int, Statement]:
    """Return the scene of each image id from ``boxes.json``."""
    if not boxes.is_file():
        raise MissingData(f"{boxes}: no such file; it comes with the built-in scenes (`recap data corpus`)")
    checksums.check(boxes)
    try:
        return {record["image_id"]: _scene(record) for record in read_json(boxes)["images"]}
    except (KeyError, TypeError) as error:
        raise DataError(f"{boxes}: it does not describe scenes ({error!r}); make the data set again") from error


def parse(caption: str) -> Statement | None:
    """Return what a caption says, or None where it is no sentence of the grammar."""
    matches = (pattern.fullmatch(caption) for pattern in _SENTENCES)
    return next((_statement(found.groupdict()) for found in matches if found), None)


def _statement(parts: Mapping[str, str | None]) -> Statement | None:
    """Return what the parts of a sentence say, or None where they do not agree with each other in number."""
    groups = tuple(filter(None, (_group(parts, name) for name in ("first_", "second_") if f"{name}noun" in parts)))
    if len(groups) != 1 + ("second_noun" in parts):
        return None
    count = groups[0].count
    verb = parts.get("be") or parts.get("there")
    if verb is not None and verb != ("is" if count == 1 else "are"):
        return None
    background = _GROUNDS.get(parts.get("ground") or "")
    if len(groups) == 1:
        line = parts.get("line") if count > 2 else None
        arrangement = line or _PLACES[min(count, 3)].get(parts.get("place") or "")
    else:
        arrangement = _LINKS.get(parts.get("link") or "") or next(way for way in SIDES if parts.get(way))
    if arrangement in _REVERSED:
        groups, arrangement = groups[::-1], _REVERSED[arrangement]
    return Statement(groups, arrangement, background) if arrangement else None


def _group(parts: Mapping[str, str | None], name: str) -> Things | None:
    """Return the group that a noun phrase names, or None where article, number and noun do not agree."""
    number, words, size, colour, before, noun, after = (
        parts[name + part] or "" for part in ("number", "words", "size", "colour", "before", "noun", "after")
    )
    count = _COUNTS[number]
    if noun not in (_SINGULAR if count == 1 else _PLURAL) or (before and after):
        return None
    if number in ("a", "an") and number != article(words):
        return None
    texture = _TEXTURES.get(before or after, "plain")
    return Things(count, _SIZES.get(size), colour, texture, (_SINGULAR | _PLURAL)[noun])


def _scene(record: Mapping[str, Any]) -> Statement:
    """Return the scene that a record of ``boxes.json`` describes."""
    looks = Counter(
        (item["group"], *(item[key] for key in ("size", "colour", "texture", "shape"))) for item in record["objects"]
    )
    groups = tuple(Things(count, *look) for (_, *look), count in sorted(looks.items()))
    return Statement(groups, record["arrangement"], record["background"])


def _fits(said: Things, things: Things) -> bool:
    """Return whether what is said of a group holds."""
    same = (said.count, said.colour, said.texture, said.shape) == (
        things.count,
        things.colour,
        things.texture,
        things.shape,
    )
    return same and said.size in (None, things.size)


def _one_of(words: Iterable[str]) -> str:
    """Return the expression that matches any of these words."""
    return "|".join(map(re.escape, words))


def _meanings(forms: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return what each form of words means."""
    return {form: meaning for meaning, group in forms.items() for form in group}


_SINGULAR = _meanings({shape: SHAPE_NAMES.get(shape, (shape,)) for shape in SHAPES})
_PLURAL = {plural(noun): shape for noun, shape in _SINGULAR.items()}
_COUNTS = {"a": 1, "an": 1, PAIR: 2, **{word: count for count, word in enumerate(NUMBERS) if count}}
_SIZES, _TEXTURES, _GROUNDS = _meanings(SIZE_NAMES), _meanings(TEXTURE_NAMES), _meanings(GROUNDS)
_PLACES = {1: _meanings(SPOT_NAMES), 2: _meanings(PAIRS), 3: _meanings(LINES)}  # 3: of three and more
_PLACES[1] |= {f"{spot} of the picture": meaning for spot, meaning in _PLACES[1].items()}
_LINKS = _meanings(RELATIONS)
_REVERSED = {reverse: relation for relation, reverse in OPPOSITE.items()}


def _things(name: str) -> str:
    """Return the expression of a noun phrase; its parts are groups with this name before theirs."""
    before = [form for form in _TEXTURES if not form.startswith("with")]
    after = [form for form in _TEXTURES if form.startswith("with")]
    return (
        rf"(?P<{name}number>{_one_of(_COUNTS)}) (?P<{name}words>(?:(?P<{name}size>{_one_of(_SIZES)}) )?"
        rf"(?P<{name}colour>{_one_of(COLOURS)}) (?:(?P<{name}before>{_one_of(before)}) )?"
        rf"(?P<{name}noun>{_one_of([*_PLURAL, *_SINGULAR])}))(?: (?P<{name}after>{_one_of(after)}))?"
    )


def _sentences() -> list[re.Pattern[str]]:
    """Return an expression for each form of a sentence."""
    one, two = _things("first_"), _things("second_")
    place = rf"(?P<place>{_one_of(form for places in _PLACES.values() for form in places)})"
    link = rf"(?P<link>{_one_of(_LINKS)})"
    start, be = rf"(?:{_one_of(OPENINGS)}|there (?P<there>is|are))", "(?P<be>is|are)"
    sides = [rf"{one} {first} and {two} (?P<{way}>{second})" for way, (first, second) in SIDES.items()]
    with_ground = [
        rf"(?:{start} )?{one} {place}",
        rf"{place} there (?P<there>is) {one}",
        rf"a (?P<line>row|column) of {one}",
        rf"{one} {be} {place}",
        rf"(?:{start} )?{one} {link} {two}",
        rf"{one} {be} {link} {two}",
    ]
    ground = rf"(?: (?P<ground>{_one_of(_GROUNDS)}))?"
    return [re.compile(form) for form in [*(form + ground for form in with_ground), *sides]]


_SENTENCES = _sentences()
