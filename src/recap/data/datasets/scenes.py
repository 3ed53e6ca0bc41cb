"""The built-in data set: invented scenes of a few objects, whose captions need counting, colours and relations.

A scene is one group of equal objects, or two groups of which one lies left of or above the other. Lengths are shares
of the picture's edge.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from recap.core.documents import write_json
from recap.core.files import atomic_path
from recap.core.hashing import generator, sha256_file
from recap.core.log import progress
from recap.data.corpus import Caption
from recap.data.datasets.base import Built
from recap.data.datasets.scene_captions import BACKGROUNDS, COLOURS, SHAPES, SPOTS, Group, Point, Scene, describe, pick
from recap.data.tokenizer import tokenize
from recap.settings.datasets import PICTURES, SCENE_CAPTIONS, ScenesDataset

# Stripes and dots cannot be made out on the narrow parts of the others.
TEXTURED = ("circle", "square", "triangle", "heart")
EDGES = {"small": (0.215, 0.235), "large": (0.34, 0.39)}
MAX_PER_KIND = 5  # objects of a group; large ones are one fewer
_SEVERAL = ((2, 1), (1, 2), (3, 1), (1, 3), (4, 1), (1, 4), (2, 2), (2, 3), (3, 2))  # how many two groups hold
_MARGIN = 0.03
_GAP = 0.02

Area = tuple[float, float, float, float]


def build(spec: ScenesDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """Render the data set as its settings say; arguments as of a `Reader`, of which ``inputs`` is not used."""
    options = spec.model_dump(include={"train", "val", "test", "size", "max_per_kind", "seed"})
    return Built(render_scenes(**options, out=out), sha256_file(out / PICTURES))


def render_scenes(
    *, train: int, val: int, test: int, size: int, max_per_kind: int, seed: int, out: Path
) -> list[Caption]:
    """Write images.zip and boxes.json into ``out`` and return five captions per picture.

    Equal arguments give equal bytes. No two pictures share a description. Pictures are numbered test first, then val,
    then train, so that another number of training pictures leaves the test pictures as they are. ``size`` is the edge
    of a picture, at least 32; of one kind a picture has 1 to ``max_per_kind`` (at most 5) objects.
    """
    from recap.data.datasets.scene_pictures import paint

    splits = ["test"] * test + ["val"] * val + ["train"] * train
    captions: list[Caption] = []
    images: list[dict[str, Any]] = []
    out.mkdir(parents=True, exist_ok=True)
    with atomic_path(out / PICTURES) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        scenes = zip(splits, distinct_scenes(len(splits), max_per_kind, seed), strict=True)
        for number, (split, scene) in enumerate(progress(scenes, name="scenes", unit="pictures", total=len(splits))):
            file, content = f"{number:06d}.png", io.BytesIO()
            picture, boxes = paint(scene, size=size, random=generator(seed, "picture", number))
            picture.save(content, format="PNG", compress_level=6)
            entry = zipfile.ZipInfo(file, date_time=(2000, 1, 1, 0, 0, 0))  # the same on every day and system
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, content.getvalue())
            objects = [
                {
                    "group": box.group,
                    "box": list(box.corners),
                    "drawn": list(box.drawn),
                    **scene.groups[box.group].words,
                }
                for box in boxes
            ]
            about = {"background": scene.background, "arrangement": scene.arrangement, "objects": objects}
            images.append({"image_id": number, "file": file, "split": split, **about})
            for index, text in enumerate(describe(scene, random=generator(seed, "captions", number))):
                captions.append(Caption(number, file, split, number * SCENE_CAPTIONS + index, text, tokenize(text)))
    write_json(out / "boxes.json", {"size": size, "seed": seed, "images": images})
    return captions


def distinct_scenes(count: int, max_per_kind: int, seed: int) -> Iterator[Scene]:
    """Yield ``count`` scenes no two of which share a description."""
    seen: set[str] = set()
    for number in range(count):
        random = generator(seed, "scene", number)
        scene = invent_scene(random, max_per_kind)
        while scene.description in seen:
            scene = invent_scene(random, max_per_kind)
        seen.add(scene.description)
        yield scene


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
    """Draw the edge of objects of which ``in_line`` fit beside each other."""
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
        # One is near the middle of its half, so that what lies left of another does not lie above it as well; several
        # are one below the other.
        step = (1 - 2 * _MARGIN) / count
        starts = [_MARGIN + index * step for index in range(count)]
        bands = [(0.3, 0.7)] if count == 1 else [(start, start + step) for start in starts]
        line = [_inside(random, (half[0], top, half[1], bottom), edge) for top, bottom in bands]
        centres = tuple(line) if relation == "left" else tuple((y, x) for x, y in line)
        groups.append(Group(count, size, "", "plain", "", edge, centres))
    return Scene(_distinct(random, groups), relation, background)


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
    first, second = (_textured(random, replace(g, colour=colour, shape=shape)) for g, colour, shape in looks)
    return first, second


def _textured(random: np.random.Generator, group: Group) -> Group:
    """Return the group with stripes or dots in four of ten cases where its shape can carry them."""
    texture = ("striped", "dotted", "plain")[int(random.choice(3, p=(0.2, 0.2, 0.6)))]
    return replace(group, texture=texture if group.shape in TEXTURED else "plain")
