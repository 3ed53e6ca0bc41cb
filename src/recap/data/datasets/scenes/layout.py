"""Invents scenes: which objects a picture shows, and where.

A scene is one group of equal objects, or two groups of which one lies left of or above the other. Lengths are shares
of the picture's edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink")
SHAPES = ("circle", "square", "triangle", "heart", "star", "ring", "cross")
# Stripes and dots cannot be made out on the narrow parts of the others.
TEXTURED = ("circle", "square", "triangle", "heart")
BACKGROUNDS = ("white", "grey", "black", "striped", "checkered")
SPOTS = ("top left", "top right", "bottom left", "bottom right", "centre")
EDGES = {"small": (0.215, 0.235), "large": (0.34, 0.39)}
MAX_PER_KIND = 5  # objects of a group; large ones are one fewer
_SEVERAL = ((2, 1), (1, 2), (3, 1), (1, 3), (4, 1), (1, 4), (2, 2), (2, 3), (3, 2))  # how many two groups hold
_MARGIN = 0.03
_GAP = 0.02

Item = TypeVar("Item")
Point = tuple[float, float]
Area = tuple[float, float, float, float]


@dataclass(frozen=True)
class Group:
    """``count`` objects that look alike; ``edge`` is the side of their bounding square."""

    count: int
    size: str
    colour: str
    texture: str
    shape: str
    edge: float
    centres: tuple[Point, ...]

    @property
    def look(self) -> str:
        """What a person would say of the group, wherever it lies."""
        return f"{self.count} {self.size} {self.colour} {self.texture} {self.shape}"


@dataclass(frozen=True)
class Scene:
    """One picture in words and numbers.

    ``arrangement`` of one group: a name of SPOTS for a single object, else row, column or scattered; of two groups:
    ``left`` or ``above``, said of the first group towards the second.
    """

    groups: tuple[Group, ...]
    arrangement: str
    background: str

    @property
    def description(self) -> str:
        """The scene in words, rough positions included; no two scenes of a data set share it."""
        return f"{' | '.join(group.look for group in self.groups)} | {self.arrangement} | {self.background}"


def pick(random: np.random.Generator, items: Sequence[Item]) -> Item:
    """Return one of ``items``."""
    return items[int(random.integers(len(items)))]


def invent_scene(random: np.random.Generator, max_per_kind: int) -> Scene:
    """Draw a scene of groups of up to `max_per_kind` objects: three in ten have one group, the others two."""
    background = BACKGROUNDS[int(random.choice(len(BACKGROUNDS), p=(0.25, 0.25, 0.2, 0.15, 0.15)))]
    if random.random() < 0.3:
        return _one_group(random, background, max_per_kind)
    return _two_groups(random, background, max_per_kind)


def _one_group(random: np.random.Generator, background: str, max_per_kind: int) -> Scene:
    """One object in a corner or the centre, or several in a row, in a column or scattered."""
    size = pick(random, ("small", "large"))
    count = int(random.integers(1, 1 + min(max_per_kind, MAX_PER_KIND if size == "small" else MAX_PER_KIND - 1)))
    options = ["row", "column"] if count == 2 or (count < 5 and size == "small") else []
    options += ["scattered"] if count > 2 else []
    arrangement = pick(random, SPOTS if count == 1 else options)
    edge = _edge(random, size, count if arrangement in ("row", "column") else 1)
    centres = _placed(random, arrangement, count, edge)
    group = Group(count, size, pick(random, COLOURS), "plain", pick(random, SHAPES), edge, centres)
    return Scene((_textured(random, group),), arrangement, background)


def _edge(random: np.random.Generator, size: str, in_line: int) -> float:
    """Draw the edge of objects so that ``in_line`` of them fit beside each other."""
    return min(float(random.uniform(*EDGES[size])), (1 - 2 * _MARGIN) / in_line - _GAP)


def _placed(random: np.random.Generator, arrangement: str, count: int, edge: float) -> tuple[Point, ...]:
    """Return centres of ``count`` objects that do not touch."""
    low, high = _MARGIN, 1 - _MARGIN
    if arrangement in SPOTS:
        start = {"top": 0.0, "bottom": 0.55}.get(arrangement.split()[0], 0.28)
        side = {"left": 0.0, "right": 0.55}.get(arrangement.split()[-1], 0.28)
        width = 0.44 if arrangement == "centre" else 0.45
        return (_inside(random, (max(side, low), max(start, low), side + width, start + width), edge),)
    if arrangement == "scattered":
        cells = 2 if edge > EDGES["small"][1] else 3
        step = (high - low) / cells
        while True:
            chosen = [divmod(int(cell), cells) for cell in random.permutation(cells * cells)[:count]]
            if len({row for row, _ in chosen}) > 1 and len({column for _, column in chosen}) > 1:
                break
        boxes = [(low + c * step, low + r * step, low + (c + 1) * step, low + (r + 1) * step) for r, c in chosen]
        return tuple(_inside(random, box, edge) for box in boxes)
    # A row; a column is a row with x and y exchanged.
    step = (high - low) / count
    across = float(random.uniform(low + edge / 2, high - edge / 2))
    slack = max(0.0, (step - edge - _GAP) / 2)
    shift = float(random.uniform(-slack, slack))
    line = [(low + (index + 0.5) * step + shift, across) for index in range(count)]
    return tuple(line) if arrangement == "row" else tuple((y, x) for x, y in line)


def _inside(random: np.random.Generator, area: Area, edge: float) -> Point:
    """Return a centre so that the object stays in the area (left, top, right, bottom) with half a gap to spare."""
    half = (edge + _GAP) / 2
    left, top, right, bottom = area
    return (
        float(random.uniform(left + half, max(right - half, left + half))),
        float(random.uniform(top + half, max(bottom - half, top + half))),
    )


def _two_groups(random: np.random.Generator, background: str, max_per_kind: int) -> Scene:
    """Two groups of five objects together at max_per_kind, in the two halves of the picture."""
    relation = pick(random, ("left", "above"))
    counts = (1, 1)
    if max_per_kind > 1 and random.random() < 0.6:
        counts = pick(random, [pair for pair in _SEVERAL if max(pair) <= max_per_kind])
    halves = ((_MARGIN, 0.5), (0.5, 1 - _MARGIN))
    groups: list[Group] = []
    for count, half in zip(counts, halves, strict=True):
        size = pick(random, ("small", "large")) if count <= 2 else "small"
        edge = _edge(random, size, count)
        line = _lined_up(random, count, half, edge)
        centres = tuple(line) if relation == "left" else tuple((y, x) for x, y in line)
        groups.append(Group(count, size, "", "plain", "", edge, centres))
    return Scene(_distinct(random, groups), relation, background)


def _lined_up(random: np.random.Generator, count: int, half: tuple[float, float], edge: float) -> list[Point]:
    """Return centres in the left or right half: one near its middle, several one below the other, in a zigzag.

    A single object keeps to the middle so that what lies left of it does not lie above it as well.
    """
    if count == 1:
        return [_inside(random, (half[0], 0.3, half[1], 0.7), edge)]
    step = (1 - 2 * _MARGIN) / count
    starts = [_MARGIN + index * step for index in range(count)]
    return [_inside(random, (half[0], start, half[1], start + step), edge) for start in starts]


def _distinct(random: np.random.Generator, groups: Sequence[Group]) -> tuple[Group, Group]:
    """Give two groups their looks: unlike in colour, shape or both, so that a caption must bind them rightly."""
    colours = [COLOURS[index] for index in random.permutation(len(COLOURS))[:2]]
    shapes = [SHAPES[index] for index in random.permutation(len(SHAPES))[:2]]
    alike = random.random()
    if alike < 0.3:
        shapes[1] = shapes[0]
    elif alike < 0.45:
        colours[1] = colours[0]
    looks = zip(groups, colours, shapes, strict=True)
    first, second = (
        _textured(random, Group(g.count, g.size, colour, "plain", shape, g.edge, g.centres))
        for g, colour, shape in looks
    )
    return first, second


def _textured(random: np.random.Generator, group: Group) -> Group:
    """Return the group with stripes or dots in four of ten cases where its shape can carry them."""
    texture = ("striped", "dotted", "plain")[int(random.choice(3, p=(0.2, 0.2, 0.6)))]
    texture = texture if group.shape in TEXTURED else "plain"
    return Group(group.count, group.size, group.colour, texture, group.shape, group.edge, group.centres)
