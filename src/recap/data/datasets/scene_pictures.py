"""Paints a scene: every object on a canvas three times too large, then scaled down for smooth edges."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from recap.data.datasets.scene_captions import Group, Scene

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


@dataclass(frozen=True)
class Box:
    """Where one object was painted."""

    group: int
    #: left, top, right, bottom in pixels of the finished picture
    corners: tuple[float, ...]
    #: left, top and edge of the square that its shape fills, in pixels of the large canvas, and its turn in degrees:
    #: with them `painted_mask` draws its mask again
    drawn: tuple[int, int, int, float]


def paint(scene: Scene, *, size: int, random: np.random.Generator) -> tuple[Image.Image, list[Box]]:
    """Return the RGB picture of a scene, ``size`` pixels wide and high, and the boxes of its objects."""
    edge = size * _OVER
    canvas = Image.fromarray(_ground(scene.background, edge, random))
    boxes: list[Box] = []
    for number, group in enumerate(scene.groups):
        ink = tuple(int(np.clip(value + random.integers(-10, 11), 0, 255)) for value in _INKS[group.colour])
        for centre in group.centres:
            edges, drawn = _object(canvas, group, centre, ink, random)
            boxes.append(Box(number, tuple(round(value / _OVER, 2) for value in edges), drawn))
    return canvas.reduce(_OVER), boxes


def painted_mask(shape: str, drawn: tuple[int, int, int, float], *, size: int) -> np.ndarray:
    """Return where an object, drawn as its `Box` says, was painted on the large canvas, bool [3 size, 3 size]."""
    left, top, edge, turn = drawn
    canvas = Image.new("L", (size * _OVER, size * _OVER), 0)
    canvas.paste(_mask(shape, _outline(shape, math.radians(turn)), edge, edge), (left, top))
    mask: np.ndarray = np.asarray(canvas) > 0
    return mask


def _ground(name: str, edge: int, random: np.random.Generator) -> np.ndarray:
    """Return the background, uint8 [edge, edge, 3]; plain ones darken a little towards one side."""
    rows, columns = (places / edge for places in _coordinates(edge))
    if name in _GROUNDS:
        angle = random.uniform(0, 2 * math.pi)
        slope = (math.cos(angle) * (columns - 0.5) + math.sin(angle) * (rows - 0.5)) * 16
        values = np.float32(_GROUNDS[name]) + slope + random.integers(-6, 7)
        grey = np.clip(np.rint(values), 0, 255).astype(np.uint8)
        return np.repeat(grey[..., None], 3, axis=2)
    bands = int(random.integers(5, 8))
    if name == "striped":
        options = (columns, rows, (rows + columns) / math.sqrt(2))  # stripes stand, lie or slant
        second = np.floor(options[int(random.integers(3))] * bands * 2).astype(int) % 2
    else:
        second = (np.floor(rows * bands) + np.floor(columns * bands)).astype(int) % 2
    return np.asarray([_LIGHT, _DARK], np.uint8)[np.broadcast_to(second, (edge, edge))]


def _coordinates(edge: int) -> tuple[np.ndarray, np.ndarray]:
    """Return row and column of pixels, float32 [edge, 1] and [1, edge]."""
    along = np.arange(edge, dtype=np.float32)
    return along[:, None], along[None, :]


def _object(
    canvas: Image.Image, group: Group, centre: tuple[float, float], ink: tuple[int, ...], random: np.random.Generator
) -> tuple[tuple[int, int, int, int], tuple[int, int, int, float]]:
    """Paint one object with a dark rim; return its box on the canvas, and what its mask is drawn from."""
    edge = round(group.edge * canvas.width)
    left, top = (round(value * canvas.width - edge / 2) for value in centre)
    turn = random.uniform(-9, 9)
    outline = _outline(group.shape, math.radians(turn))
    mask = _mask(group.shape, outline, edge, edge)
    rim = tuple(value * 11 // 20 for value in ink)
    canvas.paste(rim, (left, top), mask)
    inner = round(edge * 0.88)
    offset = (edge - inner) // 2
    body = Image.fromarray(_texture(group.texture, inner, ink, canvas.width))
    canvas.paste(body, (left + offset, top + offset), _mask(group.shape, outline, inner, edge))
    box = mask.getbbox() or (0, 0, edge, edge)
    return (left + box[0], top + box[1], left + box[2], top + box[3]), (left, top, edge, turn)


def _mask(shape: str, outline: np.ndarray, edge: int, full: int) -> Image.Image:
    """Return the shape as a mask, L [edge, edge]; the ring's hole grows as its outside shrinks, so its rim shows."""
    mask = Image.new("L", (edge, edge), 0)
    pen = ImageDraw.Draw(mask)
    pen.polygon([(x * (edge - 1), y * (edge - 1)) for x, y in outline.tolist()], fill=255)
    if shape == "ring":
        hole = (0.25 * full + (full - edge) / 2) if edge < full else 0.25 * full
        middle = (edge - 1) / 2
        pen.ellipse((middle - hole, middle - hole, middle + hole, middle + hole), fill=0)
    return mask


def _outline(shape: str, turn: float) -> np.ndarray:
    """Return the corners of a shape, float [corners, 2] from 0 to 1, turned and fitted into the unit square."""
    angles = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    if shape in ("circle", "ring"):
        points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    elif shape == "heart":
        across = 16 * np.sin(angles) ** 3
        down = 13 * np.cos(angles) - 5 * np.cos(2 * angles) - 2 * np.cos(3 * angles) - np.cos(4 * angles)
        points = np.stack([across, -down], axis=1)
    elif shape == "star":
        angles = np.arange(10) * np.pi / 5 - np.pi / 2
        radii = np.where(np.arange(10) % 2 == 0, 1.0, 0.45)
        points = np.stack([np.cos(angles) * radii, np.sin(angles) * radii], axis=1)
    else:
        points = np.asarray(_CORNERS[shape], float)
    turned = points @ np.asarray([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
    low, high = turned.min(axis=0), turned.max(axis=0)
    fitted: np.ndarray = (turned - (low + high) / 2) / (high - low).max() + 0.5
    return fitted


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
    """Return the body of an object, uint8 [edge, edge, 3]: its colour, with white stripes or dots if asked for."""
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
