"""Attention maps as a contact sheet: the image once per word, dark where the weight is low, the largest outlined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recap.data.files.images import ImageSource
from recap.tables.contact_sheet import BACKGROUND, TEXT_COLOR, below, beside, write_sheet, written

if TYPE_CHECKING:
    from PIL.Image import Image

_EDGE, _GAP = 132, 10  # pixels: edge of a thumbnail, space between two
_PER_ROW = 10  # words per row
_SHADE = 0.25  # brightness where the weight is 0
_BLUR = 5  # pixels, softens the edges of boxes
_RED = (220, 20, 20)

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class AttentionMap:
    """The caption of one model for one image, with its attention weights."""

    label: str  #: of the model
    words: list[str]  #: of the caption, T
    boxes: list[Box]  #: of the N feature vectors: left, top, right, bottom as fractions of the image
    weights: list[list[float]]  #: [T, N], attention of each word over the boxes


def grid_boxes(side: int) -> list[Box]:
    """Return the cells of a square grid in raster order."""
    edges = [place / side for place in range(side + 1)]
    return [(edges[x], edges[y], edges[x + 1], edges[y + 1]) for y in range(side) for x in range(side)]


def write_attention(
    *,
    heading: str,
    maps: Mapping[int, Sequence[AttentionMap]],
    files: Mapping[int, str],
    image_roots: Sequence[Path],
    out: Path,
) -> None:
    """Write the figure as PNG: for each image and model a row of thumbnails, one per word.

    ``maps``: image id -> one attention map per model; ``files``: image id -> image file in folders or zips.
    """
    from PIL import Image as Pillow

    source, cards = ImageSource(list(image_roots)), []
    for image, attention in ((image, each) for image, models in maps.items() for each in models):
        photo = source.open_rgb(files[image]).resize((_EDGE, _EDGE))  # a square, as the backbone's input
        cells = [
            below([shaded(photo, attention.boxes, weights), written([(word, "plain", TEXT_COLOR)], _EDGE)])
            for word, weights in zip(attention.words, attention.weights, strict=True)
        ]
        blank = Pillow.new("RGB", photo.size, BACKGROUND)
        rows = [cells[start : start + _PER_ROW] for start in range(0, max(1, len(cells)), _PER_ROW)]
        thumbnails = [beside([blank if number else photo, *row], _GAP) for number, row in enumerate(rows)]
        caption = (f"{attention.label}: {' '.join(attention.words)}", "bold", TEXT_COLOR)
        cards.append(below([written([caption], (_PER_ROW + 1) * (_EDGE + _GAP)), *thumbnails], _GAP))
    write_sheet([(heading, "plain", TEXT_COLOR)], cards, out)


def shaded(image: Image, boxes: Sequence[Box], weights: Sequence[float]) -> Image:
    """Darken an image where weights are low (where boxes overlap, by the larger one) and outline the largest."""
    from PIL import Image as Pillow
    from PIL import ImageDraw, ImageFilter

    top = max(weights) or 1.0
    pixels = [[round(x * edge) for x, edge in zip(box, (*image.size, *image.size), strict=True)] for box in boxes]
    light = Pillow.new("L", image.size, round(255 * _SHADE))
    for index in sorted(range(len(boxes)), key=lambda index: weights[index]):
        left, upper, right, lower = pixels[index]
        shade = round(255 * (_SHADE + (1 - _SHADE) * weights[index] / top))
        light.paste(shade, (left, upper, right, lower))
    soft = light.filter(ImageFilter.GaussianBlur(_BLUR))
    darkened = Pillow.composite(image, Pillow.new("RGB", image.size), soft)
    left, upper, right, lower = pixels[max(range(len(boxes)), key=lambda index: weights[index])]
    outline = (left, upper, max(left, right - 1), max(upper, lower - 1))
    ImageDraw.Draw(darkened).rectangle(outline, outline=_RED, width=3)
    return darkened
