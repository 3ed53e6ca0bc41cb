"""The built-in data set: invented scenes of a few objects,
whose captions need counting, colours and relations.

A scene is one group of equal objects, or two groups of which one lies left of or above the other.
Lengths are shares of the picture's edge. Every object is painted on a canvas three times too large,
which is then scaled down for smooth edges.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from recap.core.documents import write_json
from recap.core.files import atomic_path
from recap.core.hashing import generator, sha256_file
from recap.core.log import progress
from recap.data.corpus import Caption
from recap.data.datasets.base import Built
from recap.data.datasets.scene_captions import (
    BACKGROUNDS,
    COLOURS,
    SHAPES,
    SPOTS,
    Group,
    Point,
    Scene,
    describe,
    pick,
)
from recap.data.tokenizer import tokenize
from recap.settings.datasets import PICTURES, ScenesDataset

# Stripes and dots cannot be made out on the narrow parts of the others.
TEXTURED = ("circle", "square", "triangle", "heart")
EDGES = {"small": (0.215, 0.235), "large": (0.34, 0.39)}
MAX_PER_KIND = 5  # objects of a group; large ones are one fewer
# how many two groups hold
_SEVERAL = ((2, 1), (1, 2), (3, 1), (1, 3), (4, 1), (1, 4), (2, 2), (2, 3), (3, 2))
_MARGIN = 0.03
_GAP = 0.02
SPOT_AREAS = {  # left, top, right and bottom
    "top left": (_MARGIN, _MARGIN, 0.45, 0.45),
    "top right": (0.55, _MARGIN, 1.0, 0.45),
    "bottom left": (_MARGIN, 0.55, 0.45, 1.0),
    "bottom right": (0.55, 0.55, 1.0, 1.0),
    "centre": (0.28, 0.28, 0.72, 0.72),
}


def build(spec: ScenesDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """Write images.zip and boxes.json into ``out``
    and return five captions per picture; arguments as of a `Reader`.

    Equal settings give equal bytes. No two pictures share a description. Pictures are numbered test
    first, then val, then train, so that another number of training pictures leaves the test
    pictures as they are.
    """
    splits = ["test"] * spec.test + ["val"] * spec.val + ["train"] * spec.train
    seed = spec.seed
    captions: list[Caption] = []
    images: list[dict[str, Any]] = []
    out.mkdir(parents=True, exist_ok=True)
    with (
        atomic_path(out / PICTURES) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive,
    ):
        scenes = zip(splits, distinct_scenes(len(splits), spec.max_per_kind, seed), strict=True)
        for number, (split, scene) in enumerate(
            progress(scenes, name="scenes", unit="pictures", total=len(splits))
        ):
            file = f"{number:06d}.png"
            content = io.BytesIO()
            picture, objects = paint(
                scene, size=spec.size, random=generator(seed, "picture", number)
            )
            picture.save(content, format="PNG", compress_level=6)
            # the same on every day and system
            entry = zipfile.ZipInfo(file, date_time=(2000, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content.getvalue())
            images.append(
                {
                    "image_id": number,
                    "file": file,
                    "split": split,
                    "background": scene.background,
                    "arrangement": scene.arrangement,
                    "objects": objects,
                }
            )
            for text in describe(scene, random=generator(seed, "captions", number)):
                captions.append(Caption(number, file, split, len(captions), text, tokenize(text)))
    write_json(out / "boxes.json", {"size": spec.size, "seed": seed, "images": images})
    return Built(captions, sha256_file(out / PICTURES))


def distinct_scenes(count: int, max_per_kind: int, seed: int) -> Iterator[Scene]:
    """Yield ``count`` scenes no two of which share a description."""
    seen: set[str] = set()
    for number in range(count):
        random = generator(seed, "scene", number)
        while (scene := invent_scene(random, max_per_kind)).description in seen:
            pass
        seen.add(scene.description)
        yield scene


def invent_scene(random: np.random.Generator, max_per_kind: int) -> Scene:
    """Draw a scene's groups of up to `max_per_kind` objects: one (3 in 10) or two."""
    background = str(random.choice(BACKGROUNDS, p=(0.25, 0.25, 0.2, 0.15, 0.15)))
    if random.random() < 0.3:
        return _one_group(random, background, max_per_kind)
    return _two_groups(random, background, max_per_kind)


def _one_group(random: np.random.Generator, background: str, max_per_kind: int) -> Scene:
    """One object in a corner or the centre, or several in a row, in a column or scattered."""
    size = pick(random, ("small", "large"))
    count = int(
        random.integers(
            1, 1 + min(max_per_kind, MAX_PER_KIND if size == "small" else MAX_PER_KIND - 1)
        )
    )
    options = ["row", "column"] if count == 2 or (count < 5 and size == "small") else []
    options += ["scattered"] if count > 2 else []
    arrangement = pick(random, SPOTS if count == 1 else options)
    edge = _edge(random, size, count if arrangement in ("row", "column") else 1)
    centres = _placed(random, arrangement, count, edge)
    colour = pick(random, COLOURS)
    shape = pick(random, SHAPES)
    group = Group(count, size, colour, _texture_of(shape, random), shape, edge, centres)
    return Scene((group,), arrangement, background)


def _edge(random: np.random.Generator, size: str, in_line: int) -> float:
    """Draw the edge of objects of which ``in_line`` fit beside each other."""
    return min(random.uniform(*EDGES[size]), (1 - 2 * _MARGIN) / in_line - _GAP)


def _placed(
    random: np.random.Generator, arrangement: str, count: int, edge: float
) -> Sequence[Point]:
    """Return centres of ``count`` objects that do not touch."""
    if arrangement in SPOT_AREAS:
        return [_inside(random, SPOT_AREAS[arrangement], edge)]
    if arrangement == "scattered":
        return _scattered(random, count, edge)
    low, high = _MARGIN, 1 - _MARGIN
    step = (high - low) / count
    across = random.uniform(low + edge / 2, high - edge / 2)
    slack = max(0.0, (step - edge - _GAP) / 2)
    shift = random.uniform(-slack, slack)
    along = [low + (index + 0.5) * step + shift for index in range(count)]
    if arrangement == "row":
        return [(place, across) for place in along]
    return [(across, place) for place in along]


def _scattered(random: np.random.Generator, count: int, edge: float) -> Sequence[Point]:
    """Return centres in different cells of a grid, not all in one row or column."""
    cells = 2 if edge > EDGES["small"][1] else 3
    step = (1 - 2 * _MARGIN) / cells
    rows = columns = np.zeros(count, int)
    while len(set(rows)) == 1 or len(set(columns)) == 1:
        rows, columns = np.divmod(random.permutation(cells * cells)[:count], cells)
    centres = []
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        left = _MARGIN + column * step
        top = _MARGIN + row * step
        right = _MARGIN + (column + 1) * step
        bottom = _MARGIN + (row + 1) * step
        centres.append(_inside(random, (left, top, right, bottom), edge))
    return centres


def _inside(
    random: np.random.Generator, area: tuple[float, float, float, float], edge: float
) -> Point:
    """Return a centre so that the object stays
    in the area (left, top, right, bottom) with half a gap to spare."""
    half = (edge + _GAP) / 2
    left, top, right, bottom = area
    return (
        random.uniform(left + half, max(right - half, left + half)),
        random.uniform(top + half, max(bottom - half, top + half)),
    )


def _two_groups(random: np.random.Generator, background: str, max_per_kind: int) -> Scene:
    """Two groups of at most five objects together, in the two halves of the picture."""
    relation = pick(random, ("left", "above"))
    counts = (1, 1)
    if max_per_kind > 1 and random.random() < 0.6:
        counts = pick(random, [pair for pair in _SEVERAL if max(pair) <= max_per_kind])
    halves = ((_MARGIN, 0.5), (0.5, 1 - _MARGIN))
    groups: list[Group] = []
    for count, half in zip(counts, halves, strict=True):
        size = pick(random, ("small", "large")) if count <= 2 else "small"
        edge = _edge(random, size, count)
        centres = _below_each_other(random, half, count, edge)
        if relation == "above":
            centres = [(y, x) for x, y in centres]
        groups.append(Group(count, size, "", "", "", edge, centres))
    # Their looks are unlike in colour, shape or both, so that a caption must bind them rightly.
    colours = random.permutation(COLOURS)[:2].tolist()
    shapes = random.permutation(SHAPES)[:2].tolist()
    alike = random.random()
    if alike < 0.3:
        shapes[1] = shapes[0]
    elif alike < 0.45:
        colours[1] = colours[0]
    for index, shape in enumerate(shapes):
        texture = _texture_of(shape, random)
        groups[index] = replace(groups[index], colour=colours[index], shape=shape, texture=texture)
    return Scene(tuple(groups), relation, background)


def _below_each_other(
    random: np.random.Generator, half: tuple[float, float], count: int, edge: float
) -> list[Point]:
    """Return centres of objects one below the other in a half (left, right) of the picture.

    One alone is near the middle, so that what lies left of another does not lie above it as well.
    """
    left, right = half
    if count == 1:
        return [_inside(random, (left, 0.3, right, 0.7), edge)]
    step = (1 - 2 * _MARGIN) / count
    centres = []
    for index in range(count):
        top = _MARGIN + index * step
        centres.append(_inside(random, (left, top, right, top + step), edge))
    return centres


def _texture_of(shape: str, random: np.random.Generator) -> str:
    """Return stripes or dots in four of ten cases where the shape can carry them, else plain."""
    texture = str(random.choice(("striped", "dotted", "plain"), p=(0.2, 0.2, 0.6)))
    return texture if shape in TEXTURED else "plain"


# ---- pictures


_OVER = 3
_INKS = {
    "red": (214, 38, 40),
    "orange": (247, 134, 20),
    "yellow": (248, 214, 40),
    "green": (38, 150, 62),
    "blue": (36, 86, 214),
    "purple": (134, 52, 170),
    "pink": (248, 140, 186),
}
_GROUNDS = {"white": 250, "grey": 150, "black": 26}  # of all three channels
_LIGHT, _DARK = (226, 226, 222), (180, 180, 178)


def paint(
    scene: Scene, *, size: int, random: np.random.Generator
) -> tuple[Image.Image, list[dict[str, Any]]]:
    """Return the RGB picture of a scene, ``size`` pixels wide
    and high, and where and how each object was painted.

    ``box`` is left, top, right and bottom in pixels of the finished picture; ``drawn`` is left, top
    and edge of the square that the shape fills, in pixels of the large canvas, and its turn in
    degrees, as `painted_mask` takes them.
    """
    edge = size * _OVER
    canvas = Image.fromarray(_ground(scene.background, edge, random))
    objects: list[dict[str, Any]] = []
    for number, group in enumerate(scene.groups):
        ink = tuple(
            int(np.clip(value + random.integers(-10, 11), 0, 255)) for value in _INKS[group.colour]
        )
        looks = {
            "shape": group.shape,
            "colour": group.colour,
            "size": group.size,
            "texture": group.texture,
        }
        full = round(group.edge * edge)
        inner = round(full * 0.88)
        offset = (full - inner) // 2
        for centre in group.centres:
            left = round(centre[0] * edge - full / 2)
            top = round(centre[1] * edge - full / 2)
            turn = random.uniform(-9, 9)
            mask = _mask(group.shape, turn, full, full)
            canvas.paste(tuple(value * 11 // 20 for value in ink), (left, top), mask)  # a dark rim
            body = Image.fromarray(_texture(group.texture, inner, ink, edge))
            within = _mask(group.shape, turn, inner, full)
            canvas.paste(body, (left + offset, top + offset), within)
            x0, y0, x1, y1 = mask.getbbox() or (0, 0, full, full)
            box = [round(value / _OVER, 2) for value in (left + x0, top + y0, left + x1, top + y1)]
            objects.append({"group": number, "box": box, "drawn": (left, top, full, turn), **looks})
    return canvas.reduce(_OVER), objects


def painted_mask(shape: str, drawn: tuple[int, int, int, float], *, size: int) -> np.ndarray:
    """Return where an object, ``drawn`` as `paint` says,
    was painted on the large canvas, bool [3 size, 3 size]."""
    left, top, edge, turn = drawn
    canvas = Image.new("L", (size * _OVER, size * _OVER), 0)
    canvas.paste(_mask(shape, turn, edge, edge), (left, top))
    return np.asarray(canvas) > 0


def _ground(name: str, edge: int, random: np.random.Generator) -> np.ndarray:
    """Return the background, uint8 [edge, edge, 3]; plain ones darken a little towards one side."""
    rows, columns = (along / edge for along in _coordinates(edge))
    if name in _GROUNDS:
        angle = random.uniform(0, 2 * math.pi)
        slope = (math.cos(angle) * (columns - 0.5) + math.sin(angle) * (rows - 0.5)) * 16
        values = np.float32(_GROUNDS[name]) + slope + random.integers(-6, 7)
        grey = np.clip(np.rint(values), 0, 255).astype(np.uint8)
        return np.repeat(grey[..., None], 3, axis=2)
    bands = int(random.integers(5, 8))  # numpy's own integer would make float64 of what follows
    if name == "striped":
        options = (columns, rows, (rows + columns) / math.sqrt(2))  # stripes stand, lie or slant
        second = np.floor(pick(random, options) * bands * 2).astype(int) % 2
    else:
        second = (np.floor(rows * bands) + np.floor(columns * bands)).astype(int) % 2
    return np.asarray([_LIGHT, _DARK], np.uint8)[np.broadcast_to(second, (edge, edge))]


def _coordinates(edge: int) -> tuple[np.ndarray, np.ndarray]:
    """Return row and column of pixels, float32 [edge, 1] and [1, edge]."""
    along = np.arange(edge, dtype=np.float32)
    return along[:, None], along[None, :]


def _mask(shape: str, turn: float, edge: int, full: int) -> Image.Image:
    """Return the shape, turned by degrees, as a mask, L [edge, edge].

    The ring's hole grows as its outside shrinks, so its rim shows.
    """
    mask = Image.new("L", (edge, edge), 0)
    pen = ImageDraw.Draw(mask)
    outline = _outline(shape, math.radians(turn)) * (edge - 1)
    pen.polygon(outline.ravel().tolist(), fill=255)
    if shape == "ring":
        hole = 0.25 * full + (full - edge) / 2
        middle = (edge - 1) / 2
        pen.ellipse((middle - hole, middle - hole, middle + hole, middle + hole), fill=0)
    return mask


def _outline(shape: str, turn: float) -> np.ndarray:
    """Return the corners of a shape, float [corners, 2] from 0 to 1, turned, in the unit square."""
    angles = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    if shape in ("circle", "ring"):
        points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    elif shape == "heart":
        across = 16 * np.sin(angles) ** 3
        down = (
            13 * np.cos(angles)
            - 5 * np.cos(2 * angles)
            - 2 * np.cos(3 * angles)
            - np.cos(4 * angles)
        )
        points = np.stack([across, -down], axis=1)
    elif shape == "star":
        angles = np.arange(10) * np.pi / 5 - np.pi / 2
        radii = np.where(np.arange(10) % 2 == 0, 1.0, 0.45)
        points = np.stack([np.cos(angles) * radii, np.sin(angles) * radii], axis=1)
    else:
        points = np.asarray(_CORNERS[shape], float)
    turned = points @ np.asarray(
        [[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]]
    )
    low = turned.min(axis=0)
    high = turned.max(axis=0)
    return (turned - (low + high) / 2) / (high - low).max() + 0.5


_ARM = 0.33
_CORNERS = {
    "square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
    "triangle": [(0, -1), (1.1, 0.9), (-1.1, 0.9)],
    "cross": [
        (-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM),
        (_ARM, 1), (-_ARM, 1), (-_ARM, _ARM), (-1, _ARM), (-1, -_ARM), (-_ARM, -_ARM),
    ],
}  # fmt: skip


def _texture(name: str, edge: int, ink: tuple[int, ...], canvas: int) -> np.ndarray:
    """Return the body of an object, uint8 [edge, edge, 3]:
    its colour, with white stripes or dots if asked for."""
    if name == "plain":
        return np.tile(np.asarray(ink, np.uint8), (edge, edge, 1))
    rows, columns = _coordinates(edge)
    period = max(0.062 * canvas, 6.0)
    if name == "striped":
        white = (rows + columns) / math.sqrt(2) % period < 0.42 * period
    else:
        # Every second row of dots is shifted; one dot lies in the middle of the object.
        line = np.floor((rows - edge / 2) / period + 0.5)
        y = (rows - edge / 2) - line * period
        x = (columns - edge / 2 + line % 2 * period / 2 + period / 2) % period - period / 2
        white = x**2 + y**2 < (0.29 * period) ** 2
    return np.where(white[..., None], np.uint8(250), np.asarray(ink, np.uint8)).astype(np.uint8)
