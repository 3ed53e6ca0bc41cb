"""Contact sheets: pictures and text side by side and below each other, with the colors of rows and lines in figures."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from textwrap import wrap
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
_FONT_SIZE, _LINE = 15, 20  # pixels: of letters, and from line to line

Styled = tuple[str, str, tuple[int, int, int]]  # text, style (bold or plain), color


def colour_of(labels: Iterable[str]) -> dict[str, str]:
    """Return the color of each label, in the order of the tables' rows, so that a row has one color everywhere."""
    return {label: COLOURS[index % len(COLOURS)] for index, label in enumerate(dict.fromkeys(labels))}


def read_photo(source: ImageSource, file: str) -> Image:
    """Return the picture of an example, with its views side by side where it has several."""
    return beside([source.open_rgb(view) for view in file.split(VIEWS)])


def beside(images: Sequence[Image], gap: int = 0) -> Image:
    """Return images side by side, with their upper edges in one line."""
    lefts = list(accumulate((image.width + gap for image in images), initial=0))
    size = (lefts[-1] - gap, max(image.height for image in images))
    return _pasted(images, size, [(left, 0) for left in lefts])


def below(images: Sequence[Image], gap: int = 0) -> Image:
    """Return images below each other, with their left edges in one line."""
    tops = list(accumulate((image.height + gap for image in images), initial=0))
    size = (max(image.width for image in images), tops[-1] - gap)
    return _pasted(images, size, [(0, top) for top in tops])


def _pasted(images: Sequence[Image], size: tuple[int, int], places: Sequence[tuple[int, int]]) -> Image:
    from PIL import Image

    sheet = Image.new("RGB", size, BACKGROUND)
    for image, place in zip(images, places, strict=False):
        sheet.paste(image, place)
    return sheet


def written(lines: Iterable[Styled], width: int) -> Image:
    """Return text as an image of a width, broken where it is too long."""
    from PIL import Image, ImageDraw

    letters = int(width / _fonts()["plain"].getlength("m"))  # of equal width
    broken = [(part, style, color) for text, style, color in lines for part in wrap(plain(text), letters)]
    image = Image.new("RGB", (width, _LINE * len(broken)), BACKGROUND)
    draw = ImageDraw.Draw(image)
    for number, (text, style, color) in enumerate(broken):
        draw.text((0, number * _LINE), text, font=_fonts()[style], fill=color)
    return image


@cache
def _fonts() -> dict[str, Any]:
    """Return the fonts that come with matplotlib, so that a sheet is the same on every machine."""
    import matplotlib
    from PIL import ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    names = {"plain": "DejaVuSansMono.ttf", "bold": "DejaVuSansMono-Bold.ttf"}
    return {style: ImageFont.truetype(str(folder / file), _FONT_SIZE) for style, file in names.items()}


def write_sheet(head: Sequence[Styled], cards: Sequence[Image], out: Path, *, columns: int = 1) -> None:
    """Write a contact sheet as PNG: a heading, and cards of equal width in columns."""
    from PIL import ImageOps

    rows = [beside(cards[start : start + columns], MARGIN) for start in range(0, len(cards), columns)]
    width = max(row.width for row in rows)
    sheet = ImageOps.expand(below([written(head, width), *rows], MARGIN), MARGIN, BACKGROUND)
    with atomic_path(out) as temporary:
        sheet.save(temporary, format="PNG")


def photo_address(photo: Image, edge: int) -> str:
    """Return a photo as a data URI, no longer than an edge: a page needs no other file."""
    small, content = photo.copy(), io.BytesIO()
    small.thumbnail((edge, edge))
    small.save(content, "JPEG", quality=82)
    return data_address(content.getvalue(), "image/jpeg")


def data_address(content: bytes, kind: str) -> str:
    """Return the address that holds a file itself."""
    return f"data:{kind};base64,{b64encode(content).decode('ascii')}"
