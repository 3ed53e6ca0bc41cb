"""Contact sheets of samples and of attention maps: pictures and text side by side."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFilter, ImageFont, ImageOps
from PIL.Image import Image

from recap.core.files import atomic_path
from recap.data.files.images import ImageSource, below, beside
from recap.tables.text import plain

TEXT_COLOR, GREY, BACKGROUND = (20, 20, 20), (110, 110, 110), (255, 255, 255)
MARGIN = 24
_FONT_SIZE, _LINE = 15, 20  # pixels: of letters, and from line to line

# Of attention maps, in pixels: edge of a thumbnail,
# space between two, and blur, which softens the edges of boxes.
_EDGE, _GAP, _BLUR = 132, 10, 5
_PER_ROW = 10  # words per row
_SHADE = 0.25  # brightness where the weight is 0
_RED = (220, 20, 20)

Box = tuple[float, float, float, float]
Styled = tuple[str, str, tuple[int, ...]]  # text, style (bold or plain), color in RGB


def written(lines: Iterable[Styled], width: int) -> Image:
    """Return text as an image of a width, broken where it is too long."""
    letters = int(width / _fonts()["plain"].getlength("m"))  # of equal width
    broken = []
    for text, style, color in lines:
        broken += [(part, style, color) for part in wrap(plain(text), letters)]
    image = Pillow.new("RGB", (width, _LINE * len(broken)), BACKGROUND)
    draw = ImageDraw.Draw(image)
    for number, (text, style, color) in enumerate(broken):
        draw.text((0, number * _LINE), text, font=_fonts()[style], fill=color)
    return image


@cache
def _fonts() -> dict[str, Any]:
    """Return the fonts that come with matplotlib, so that a sheet is the same on every machine."""
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    names = {"plain": "DejaVuSansMono.ttf", "bold": "DejaVuSansMono-Bold.ttf"}
    return {
        style: ImageFont.truetype(str(folder / file), _FONT_SIZE) for style, file in names.items()
    }


def write_sheet(
    head: Sequence[Styled], cards: Sequence[Image], out: Path, *, columns: int = 1
) -> None:
    """Write a contact sheet as PNG: a heading, and cards of equal width in columns."""
    rows = [
        beside(cards[start : start + columns], MARGIN) for start in range(0, len(cards), columns)
    ]
    width = max(row.width for row in rows)
    sheet = ImageOps.expand(below([written(head, width), *rows], MARGIN), MARGIN, BACKGROUND)
    with atomic_path(out) as temporary:
        sheet.save(temporary, format="PNG")


def photo_address(photo: Image, edge: int) -> str:
    """Return a photo as a data URI, no longer than an edge."""
    small = photo.copy()
    small.thumbnail((edge, edge))
    return jpeg_address(small, 82)


def jpeg_address(picture: Image, quality: int) -> str:
    """Return a picture as a data URI: a page needs no other file."""
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=quality)
    return data_address(content.getvalue(), "image/jpeg")


def data_address(content: bytes, kind: str) -> str:
    """Return the address that holds a file itself."""
    return f"data:{kind};base64,{b64encode(content).decode('ascii')}"


@dataclass(frozen=True)
class AttentionMap:
    """The caption of one model for one image, with its attention weights."""

    label: str  #: of the model
    words: list[str]  #: of the caption, T
    #: of the N feature vectors: left, top, right, bottom as fractions of the image
    boxes: list[Box]
    weights: list[list[float]]  #: [T, N], attention of each word over the boxes


def grid_boxes(side: int) -> list[Box]:
    """Return the cells of a square grid in raster order."""
    edges = [place / side for place in range(side + 1)]
    cells = []
    for y in range(side):
        cells += [(edges[x], edges[y], edges[x + 1], edges[y + 1]) for x in range(side)]
    return cells


def write_attention(
    *,
    heading: str,
    maps: Mapping[int, Sequence[AttentionMap]],
    files: Mapping[int, str],
    source: ImageSource,
    out: Path,
) -> None:
    """Write the figure as PNG: for each image and model a row of thumbnails, one per word.

    ``maps``: image id -> one attention map per model; ``files``: image id -> image file in
    ``source``.
    """
    cards = []
    for image, models in maps.items():
        # a square, as the backbone's input
        photo = source.open_rgb(files[image]).resize((_EDGE, _EDGE))
        cards += [_attention_card(photo, each) for each in models]
    write_sheet([(heading, "plain", TEXT_COLOR)], cards, out)


def _attention_card(photo: Image, attention: AttentionMap) -> Image:
    """Return the thumbnails of one model below its caption."""
    cells = []
    for word, weights in zip(attention.words, attention.weights, strict=True):
        text = written([(word, "plain", TEXT_COLOR)], _EDGE)
        cells.append(below([shaded(photo, attention.boxes, weights), text]))
    rows = []
    first = photo
    for start in range(0, max(1, len(cells)), _PER_ROW):
        rows.append(beside([first, *cells[start : start + _PER_ROW]], _GAP))
        first = Pillow.new("RGB", photo.size, BACKGROUND)
    caption = (f"{attention.label}: {' '.join(attention.words)}", "bold", TEXT_COLOR)
    return below([written([caption], (_PER_ROW + 1) * (_EDGE + _GAP)), *rows], _GAP)


def shaded(image: Image, boxes: Sequence[Box], weights: Sequence[float]) -> Image:
    """Darken an image where weights are low (largest of overlaps) and outline the top one."""
    top = max(weights) or 1.0
    pixels = np.rint(np.multiply(boxes, image.size * 2)).astype(int).tolist()
    light = Pillow.new("L", image.size, round(255 * _SHADE))
    for index in np.argsort(weights, kind="stable"):
        shade = round(255 * (_SHADE + (1 - _SHADE) * weights[index] / top))
        light.paste(shade, tuple(pixels[index]))
    soft = light.filter(ImageFilter.GaussianBlur(_BLUR))
    darkened = Pillow.composite(image, Pillow.new("RGB", image.size), soft)
    left, upper, right, lower = pixels[np.argmax(weights)]
    outline = (left, upper, max(left, right - 1), max(upper, lower - 1))
    ImageDraw.Draw(darkened).rectangle(outline, outline=_RED, width=3)
    return darkened
