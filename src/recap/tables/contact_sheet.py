"""Contact sheets: pictures and text side by side and below each other, with the colors of rows and lines in figures."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recap.core.files import atomic_path
from recap.data.corpus import VIEWS
from recap.data.files.images import ImageSource
from recap.tables.text import plain

if TYPE_CHECKING:
    from PIL.Image import Image

# Colors that color-blind readers can distinguish (Okabe and Ito); further lines repeat them.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
TEXT_COLOR, GREY, BACKGROUND = (20, 20, 20), (110, 110, 110), (255, 255, 255)
MARGIN = 24
_FONT_SIZE, _LINE = 17, 23  # pixels: of letters, and from line to line

Styled = tuple[str, str, tuple[int, int, int]]  # text, style (bold or plain), color


def colour_of(labels: Iterable[str]) -> dict[str, str]:
    """Return the color of each label, in the order of the tables' rows, so that a row has one color everywhere."""
    return {label: COLOURS[index % len(COLOURS)] for index, label in enumerate(dict.fromkeys(labels))}


def read_photo(source: ImageSource, file: str) -> Image:
    """Return the picture of an example, with its views side by side where it has several."""
    return side_by_side([source.open_rgb(view) for view in file.split(VIEWS)])


def side_by_side(views: Sequence[Image]) -> Image:
    """Return the views of an example side by side as one image; a single view unchanged."""
    return views[0] if len(views) == 1 else beside(views)


def beside(images: Sequence[Image], gap: int = 0) -> Image:
    """Return images side by side, with their upper edges in one line."""
    return _joined(images, [(image.width, 0) for image in images], (gap, 0))


def below(images: Sequence[Image], gap: int = 0) -> Image:
    """Return images below each other, with their left edges in one line."""
    return _joined(images, [(0, image.height) for image in images], (0, gap))


def _joined(images: Sequence[Image], steps: Sequence[tuple[int, int]], gap: tuple[int, int]) -> Image:
    from PIL import Image

    places = [(0, 0)]
    for right, down in steps:
        left, top = places[-1]
        places.append((left + right + gap[0], top + down + gap[1]))
    edges = [(left + image.width, top + image.height) for (left, top), image in zip(places, images, strict=False)]
    joined = Image.new("RGB", (max(right for right, _ in edges), max(bottom for _, bottom in edges)), BACKGROUND)
    for image, place in zip(images, places, strict=False):
        joined.paste(image, place)
    return joined


def fitted(image: Image, edge: int) -> Image:
    """Return an image scaled to fit a square box, with the box's width; small ones are enlarged."""
    from PIL import Image

    scale = edge / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    box = Image.new("RGB", (edge, size[1]), BACKGROUND)
    box.paste(image.resize(size, Image.Resampling.LANCZOS), (0, 0))
    return box


def written(lines: Iterable[Styled], width: int) -> Image:
    """Return text as an image of a width, broken where it is too long."""
    from PIL import Image, ImageDraw

    broken = [(part, style, color) for text, style, color in lines for part in _wrapped(plain(text), style, width)]
    image = Image.new("RGB", (width, _LINE * len(broken)), BACKGROUND)
    draw = ImageDraw.Draw(image)
    for number, (text, style, color) in enumerate(broken):
        draw.text((0, number * _LINE), text, font=_fonts()[style], fill=color)
    return image


def _wrapped(text: str, style: str, width: int) -> list[str]:
    """Break text into lines of at most ``width`` pixels, at spaces where there are any."""
    font, lines = _fonts()[style], [""]
    for word in text.split():
        if lines[-1] and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
            continue
        lines.append("")
        for char in word:
            if font.getlength(lines[-1] + char) > width:
                lines.append("")
            lines[-1] += char
    return [line for line in lines if line]


@cache
def _fonts() -> dict[str, Any]:
    """Return the fonts that come with matplotlib, so that a sheet is the same on every machine."""
    import matplotlib
    from PIL import ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    names = {"plain": "DejaVuSans.ttf", "bold": "DejaVuSans-Bold.ttf"}
    return {style: ImageFont.truetype(str(folder / file), _FONT_SIZE) for style, file in names.items()}


def write_sheet(head: Sequence[Styled], cards: Sequence[Image], out: Path, *, columns: int = 1) -> None:
    """Write a contact sheet as PNG: a heading, and cards of equal width in columns."""
    from PIL import ImageOps

    rows = [beside(cards[start : start + columns], MARGIN) for start in range(0, len(cards), columns)]
    width = max(row.width for row in rows)
    sheet = ImageOps.expand(below([written(head, width), *rows], MARGIN), MARGIN, BACKGROUND)
    with atomic_path(out) as temporary:
        sheet.save(temporary, format="PNG")


def photo_address(photo: Image, edge: int, quality: int = 82) -> tuple[str, int, int]:
    """Return a photo as a data URI, no longer than an edge, with its width and height: a page needs no other file."""
    small = photo.copy()
    small.thumbnail((edge, edge))
    content = io.BytesIO()
    small.save(content, "JPEG", quality=quality)
    return data_address(content.getvalue(), "image/jpeg"), *small.size


def data_address(content: bytes, kind: str) -> str:
    """Return the address that holds a file itself."""
    return f"data:{kind};base64,{b64encode(content).decode('ascii')}"
