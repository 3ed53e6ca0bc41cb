"""The objects of the built-in scenes, their captions, and whether a statement is true."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

import numpy as np

from recap.core import checksums
from recap.core.documents import read_json
from recap.settings.datasets import SCENE_CAPTIONS

Item = TypeVar("Item")
Point = tuple[float, float]

COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink")
SHAPES = ("circle", "square", "triangle", "heart", "star", "ring", "cross")
BACKGROUNDS = ("white", "grey", "black", "striped", "checkered")
SPOTS = ("top left", "top right", "bottom left", "bottom right", "centre")
LENGTHS = (5, 16)
NUMBERS = ("no", "one", "two", "three", "four", "five")
PAIR = "a pair of"
SHAPE_NAMES = {
    "circle": ("circle", "disc"),
    "ring": ("ring", "hoop"),
    "cross": ("cross", "plus sign"),
}
SIZE_NAMES = {"small": ("small", "little"), "large": ("large", "big")}
TEXTURE_NAMES = {
    "striped": ("striped", "with white stripes"),
    "dotted": ("dotted", "with white dots"),
}
GROUNDS = {name: (f"on a {name} background", f"in front of a {name} wall") for name in BACKGROUNDS}
GROUNDS["black"] = ("on a black background", "on a dark background")
SPOT_NAMES = {
    "top left": ("in the top left corner", "in the upper left corner"),
    "top right": ("in the top right corner", "in the upper right corner"),
    "bottom left": ("in the bottom left corner", "in the lower left corner"),
    "bottom right": ("in the bottom right corner", "in the lower right corner"),
    "centre": ("in the centre", "in the middle"),
}
PAIRS = {
    "row": ("side by side", "next to each other"),
    "column": ("one above the other", "one below the other"),
}
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

# Sentences of one group and of two, written and parsed by the same forms: each is taken where a
# random number is below its bound. A background may follow, but not where both sides are named.
PLACE_FIRST, LINE_FIRST = "{place} there {be} {first}", "a {line} of {first}"
ONE_GROUP = (
    (0.5, "{first} {place}"),
    (0.75, "there {be} {first} {place}"),
    (0.85, PLACE_FIRST),  # of a single object
    (0.85, LINE_FIRST),  # of three and more in a row or column
    (0.92, "{first} {be} {place}"),
    (1.0, "{opening} {first} {place}"),
)
TWO_GROUPS = (
    (0.6, "{first} {link} {second}"),
    (0.8, "there {be} {first} {link} {second}"),
    (0.93, "{first} {be} {link} {second}"),
    (1.0, "{opening} {first} {link} {second}"),
)
BOTH_SIDES = "{first} {left} and {second} {right}"


@dataclass(frozen=True)
class Things:
    """A group of equal objects; in a caption ``size`` is None where none is said."""

    count: int
    size: str | None
    colour: str
    texture: str
    shape: str


@dataclass(frozen=True)
class Group(Things):
    """Things in a picture; ``edge`` is the side of their bounding square."""

    size: str
    edge: float
    centres: Sequence[Point]


@dataclass(frozen=True)
class Statement:
    """A scene, or what a caption says of one; ``background`` is None where none is said.

    ``arrangement`` of one group: a name of SPOTS for a single object, else row, column or
    scattered; of two groups: ``left`` or ``above``, said of the first group towards the second.
    """

    groups: tuple[Things, ...]
    arrangement: str
    background: str | None


@dataclass(frozen=True)
class Scene(Statement):
    """One picture in words and numbers."""

    groups: tuple[Group, ...]
    background: str

    @property
    def description(self) -> str:
        """The scene in words, rough positions included; no two scenes of a data set share it."""
        looks = (
            f"{group.count} {group.size} {group.colour} {group.texture} {group.shape}"
            for group in self.groups
        )
        return f"{' | '.join(looks)} | {self.arrangement} | {self.background}"


def pick(random: np.random.Generator, items: Sequence[Item]) -> Item:
    """Return one of ``items``."""
    return items[int(random.integers(len(items)))]


def describe(scene: Scene, *, random: np.random.Generator) -> list[str]:
    """Return five different captions of 5 to 16 words, in lower case, without punctuation."""
    captions: list[str] = []
    write = _group_caption if len(scene.groups) == 1 else _relation_caption
    while len(captions) < SCENE_CAPTIONS:  # the grammar has many more of every scene
        caption = write(scene, random)
        if LENGTHS[0] <= len(caption.split()) <= LENGTHS[1] and caption not in captions:
            captions.append(caption)
    return captions


def _group_caption(scene: Scene, random: np.random.Generator) -> str:
    """Caption one group: what and how many, where or how arranged, mostly the background."""
    group = scene.groups[0]
    if group.count == 1:
        place = _mostly_first(random, SPOT_NAMES[scene.arrangement])
        place += " of the picture" if random.random() < 0.15 else ""
    else:
        place = _mostly_first(random, (PAIRS if group.count == 2 else LINES)[scene.arrangement])
    ground = _ground(scene, random)
    words = {"first": _noun_phrase(group, random), "place": place, "line": scene.arrangement}
    kind = random.random()
    lined_up = group.count > 2 and scene.arrangement in ("row", "column")
    fits = {PLACE_FIRST: group.count == 1, LINE_FIRST: lined_up}
    form = next(form for bound, form in ONE_GROUP if kind < bound and fits.get(form, True))
    if form == LINE_FIRST:
        # A second draw that changes no odds; without it, published pictures get other captions.
        words["first"] = _noun_phrase(group, random)
    return _sentence(form, words, group, ground, random)


def _relation_caption(scene: Scene, random: np.random.Generator) -> str:
    """Caption two groups; three of four start with the left or upper one."""
    first, second = scene.groups
    relation = scene.arrangement
    ground = _ground(scene, random)
    if random.random() < 0.12:
        words = {"first": _noun_phrase(first, random), "second": _noun_phrase(second, random)}
        return BOTH_SIDES.format(left=SIDES[relation][0], right=SIDES[relation][1], **words)
    if random.random() < 0.25:
        first, second, relation = second, first, OPPOSITE[relation]
    words = {"first": _noun_phrase(first, random), "second": _noun_phrase(second, random)}
    words["link"] = _mostly_first(random, RELATIONS[relation])
    kind = random.random()
    form = next(form for bound, form in TWO_GROUPS if kind < bound)
    return _sentence(form, words, first, ground, random)


def _sentence(
    form: str, words: Mapping[str, str], first: Group, ground: str, random: np.random.Generator
) -> str:
    opening = pick(random, OPENINGS) if "{opening}" in form else ""
    be = "is" if first.count == 1 else "are"
    return f"{form.format(be=be, opening=opening, **words)} {ground}".strip()


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
    if group.count == 1:
        number = "one" if random.random() < 0.08 else article(words)
    else:
        words = plural(words)
        number = PAIR if group.count == 2 and random.random() < 0.1 else NUMBERS[group.count]
    return f"{number} {words} {after}".strip()


def _mostly_first(random: np.random.Generator, forms: tuple[str, ...]) -> str:
    """Return the usual form four times of five."""
    return forms[0] if len(forms) == 1 or random.random() < 0.8 else pick(random, forms[1:])


def plural(words: str) -> str:
    """Return a noun, with what stands before it, in the plural."""
    return f"{words}es" if words.endswith("s") else f"{words}s"


def article(following: str) -> str:
    """Return "a" or "an"."""
    return "an" if following[0] in "aeiou" else "a"


def is_true(caption: str, scene: Statement) -> bool:
    """Return whether a caption is a sentence of the grammar and wholly true of a scene."""
    stated = parse(caption)
    if (
        stated is None
        or stated.arrangement != scene.arrangement
        or len(stated.groups) != len(scene.groups)
    ):
        return False
    looks = zip(stated.groups, scene.groups, strict=True)
    return stated.background in (None, scene.background) and all(
        words in (things, replace(things, size=None)) for words, things in looks
    )


def relation_is_true(caption: str, scene: Statement) -> bool:
    """Return whether a caption says of a scene's two groups
    which lies left of or above which, and is right about it.

    Numbers, sizes, textures and background do not count; colours and shapes tell which group is
    which, so that they may be wrong as long as each group said is more like its own than like the
    other. In a scene of one group nothing is related: there a caption is right if it says no
    relation.
    """
    stated = parse(caption)
    if len(scene.groups) == 1:
        return stated is not None and len(stated.groups) == 1
    if stated is None or len(stated.groups) != 2 or stated.arrangement != scene.arrangement:
        return False

    def likeness(groups: tuple[Things, ...]) -> int:
        pairs = zip(stated.groups, groups, strict=True)
        return sum(
            (one.colour == other.colour) + (one.shape == other.shape) for one, other in pairs
        )

    return likeness(scene.groups) > likeness(scene.groups[::-1])


def read_truth(boxes: Path) -> dict[int, Statement]:
    """Return the scene of each image id from ``boxes.json``."""
    checksums.check(boxes)
    look = itemgetter("group", "size", "colour", "texture", "shape")
    scenes = {}
    for record in read_json(boxes)["images"]:
        looks = Counter(map(look, record["objects"]))
        groups = tuple(Things(count, *names) for (_, *names), count in sorted(looks.items()))
        scenes[record["image_id"]] = Statement(groups, record["arrangement"], record["background"])
    return scenes


def parse(caption: str) -> Statement | None:
    """Return what a caption says, or None where it is no sentence
    of the grammar or its parts disagree in number."""
    for pattern in _SENTENCES:
        match = pattern.fullmatch(caption)
        if match is not None:
            return _statement(defaultdict(str, match.groupdict(default="")))
    return None


def _statement(parts: Mapping[str, str]) -> Statement | None:
    """Return what a sentence says, by its parts; '' is one that it does not have."""
    groups = []
    for name in ("first", "second"):
        if parts[name]:
            group = _group(parts[name])
            if group is None:
                return None
            groups.append(group)
    count = groups[0].count
    if parts["be"] and parts["be"] != ("is" if count == 1 else "are"):
        return None
    arrangement = _arrangement(parts, count)
    if arrangement is None:
        return None
    if arrangement in _REVERSED:
        groups.reverse()
        arrangement = _REVERSED[arrangement]
    return Statement(tuple(groups), arrangement, _GROUNDS.get(parts["ground"]))


def _arrangement(parts: Mapping[str, str], count: int) -> str | None:
    """Return the relation of two groups, or the place of one, which has ``count`` objects."""
    if parts["second"]:
        sides = (parts["left"], parts["right"])
        return _LINKS.get(parts["link"]) or _SIDES.get(sides)
    if count > 2 and parts["line"]:
        return parts["line"]
    return _PLACES[min(count, 3)].get(parts["place"])


def _group(phrase: str) -> Things | None:
    """Return the group that a noun phrase names; None where article, number and noun disagree."""
    match = re.fullmatch(_PHRASE, phrase)
    assert match is not None
    number, words, size, colour, before, noun, after = match.groups(default="")
    count = _COUNTS[number]
    if noun not in (_SINGULAR if count == 1 else _PLURAL) or (before and after):
        return None
    if number in ("a", "an") and number != article(words):
        return None
    texture = _TEXTURES.get(before or after, "plain")
    return Things(count, _SIZES.get(size), colour, texture, (_SINGULAR | _PLURAL)[noun])


def _one_of(words: Iterable[str]) -> str:
    """Return the expression that matches any of these words."""
    return "|".join(map(re.escape, words))


def _meanings(forms: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return what each form of words means."""
    meanings: dict[str, str] = {}
    for meaning, group in forms.items():
        meanings |= dict.fromkeys(group, meaning)
    return meanings


_SINGULAR = _meanings({shape: SHAPE_NAMES.get(shape, (shape,)) for shape in SHAPES})
_PLURAL = {plural(noun): shape for noun, shape in _SINGULAR.items()}
_COUNTS = {"a": 1, "an": 1, PAIR: 2, **{word: count for count, word in enumerate(NUMBERS) if count}}
_SIZES = _meanings(SIZE_NAMES)
_TEXTURES = _meanings(TEXTURE_NAMES)
_GROUNDS = _meanings(GROUNDS)
# 3: of three and more
_PLACES = {1: _meanings(SPOT_NAMES), 2: _meanings(PAIRS), 3: _meanings(LINES)}
_PLACES[1] |= {f"{spot} of the picture": meaning for spot, meaning in _PLACES[1].items()}
_LINKS = _meanings(RELATIONS)
_SIDES = {sides: relation for relation, sides in SIDES.items()}
_REVERSED = {reverse: relation for relation, reverse in OPPOSITE.items()}


_BEFORE = [form for form in _TEXTURES if not form.startswith("with")]
_AFTER = [form for form in _TEXTURES if form.startswith("with")]
# number; words: size, colour, texture before, noun; texture after
_PHRASE = (
    rf"({_one_of(_COUNTS)}) ((?:({_one_of(_SIZES)}) )?({_one_of(COLOURS)}) "
    rf"(?:({_one_of(_BEFORE)}) )?({_one_of([*_PLURAL, *_SINGULAR])}))(?: ({_one_of(_AFTER)}))?"
)


def _pattern(form: str) -> re.Pattern[str]:
    """Return the expression of a form of a sentence; its slots are groups."""
    slots: dict[str, Iterable[str]] = {
        "place": list(chain.from_iterable(_PLACES.values())),
        "link": _LINKS,
        "line": ("row", "column"),
        "be": ("is", "are"),
        "opening": OPENINGS,
        "left": [first for first, _ in _SIDES],
        "right": [second for _, second in _SIDES],
    }
    parts = {name: rf"(?P<{name}>{_one_of(words)})" for name, words in slots.items()}
    parts |= {name: rf"(?P<{name}>{_PHRASE})" for name in ("first", "second")}
    return re.compile(
        form.format(**parts)
        + ("" if form == BOTH_SIDES else rf"(?: (?P<ground>{_one_of(_GROUNDS)}))?")
    )


_SENTENCES = [_pattern(form) for _, form in (*ONE_GROUP, *TWO_GROUPS)] + [_pattern(BOTH_SIDES)]
