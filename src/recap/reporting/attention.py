"""Where models look: a photo once a word, dark where the attention is low, the strongest box outlined in red."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recap.core.files.atomic import atomic_path
from recap.data.files.images import ImageSource
from recap.reporting.content import plain
from recap.reporting.figures import fonts_of_sheets, wrapped

if TYPE_CHECKING:
    from PIL.Image import Image

_EDGE, _GAP, _LINE = 132, 10, 24  # pixels of a small photo, between two, of a line of text
_ACROSS = 10  # small photos in a row
_SHADE = 0.25  # brightness where nothing is attended to
_BLUR = 5  # pixels, softens the edges of boxes
_INK, _RED, _PAPER = (20, 20, 20), (220, 20, 20), (255, 255, 255)

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Look:
    """What one model says about a photo and where it looks.

    Attributes:
        label: of the model.
        words: of the caption.
        boxes: what the model may look at, left, top, right, bottom as fractions of the photo.
        weights: for every word, one number a box.
    """

    label: str
    words: list[str]
    boxes: list[Box]
    weights: list[list[float]]


def grid_boxes(side: int) -> list[Box]:
    """Return the cells of a square grid in raster order."""
    return [
        (column / side, row / side, (column + 1) / side, (row + 1) / side)
        for row in range(side)
        for column in range(side)
    ]


def write_attention(
    *,
    heading: str,
    looks: Mapping[int, Sequence[Look]],
    files: Mapping[int, str],
    image_roots: Sequence[Path],
    out: Path,
) -> None:
    """Write the figure: for every photo and model a line of small photos, one a word.

    Args:
        heading: what stands above: the table and the scale of the run.
        looks: image id -> what each model says and where it looks.
        files: image id -> file of the photo.
        image_roots: folders or zips with the photos.
        out: the PNG.

    Raises:
        RecapError: a photo is missing or broken.
    """
    from PIL import Image as Pillow

    source = ImageSource(list(image_roots))
    strips = [_strip(source.open_rgb(files[image]), look) for image, models in looks.items() for look in models]
    strips.insert(0, _heading(heading, strips[0].width))
    sheet = Pillow.new("RGB", (strips[0].width, sum(s.height for s in strips)), _PAPER)
    top = 0
    for strip in strips:
        sheet.paste(strip, (0, top))
        top += strip.height
    with atomic_path(out) as temporary:
        sheet.save(temporary, format="PNG")


def _heading(text: str, width: int) -> Image:
    """Return the lines above the figure."""
    from PIL import Image as Pillow
    from PIL import ImageDraw

    font = fonts_of_sheets()["plain"]
    lines = wrapped(plain(text), font, width - 2 * _GAP)
    strip = Pillow.new("RGB", (width, len(lines) * _LINE + 2 * _GAP), _PAPER)
    ImageDraw.Draw(strip).multiline_text((_GAP, _GAP), "\n".join(lines), font=font, fill=_INK)
    return strip


def _strip(photo: Image, look: Look) -> Image:
    """Return one model's line, or lines, for one photo."""
    from PIL import Image as Pillow
    from PIL import ImageDraw

    fonts, step = fonts_of_sheets(), _EDGE + _GAP
    lines = -(-len(look.words) // _ACROSS)
    size = (_GAP + (_ACROSS + 1) * step, _LINE + lines * (step + _LINE) + _GAP)
    strip = Pillow.new("RGB", size, _PAPER)
    draw = ImageDraw.Draw(strip)
    draw.text((_GAP, 2), plain(f"{look.label}: {' '.join(look.words)}"), font=fonts["bold"], fill=_INK)
    small = photo.resize((_EDGE, _EDGE), Pillow.Resampling.LANCZOS)  # as the backbone saw it: squeezed to a square
    strip.paste(small, (_GAP, _LINE + _GAP))
    for index, (word, weights) in enumerate(zip(look.words, look.weights, strict=True)):
        left, top = _GAP + (1 + index % _ACROSS) * step, _LINE + _GAP + (index // _ACROSS) * (step + _LINE)
        strip.paste(shaded(small, look.boxes, weights), (left, top))
        draw.text((left, top + _EDGE + 1), plain(word), font=fonts["plain"], fill=_INK)
    return strip


def shaded(photo: Image, boxes: Sequence[Box], weights: Sequence[float]) -> Image:
    """Darken a photo where weights are low (of boxes that overlap the stronger counts) and outline the strongest."""
    from PIL import Image as Pillow
    from PIL import ImageDraw, ImageFilter

    top = max(weights) or 1.0
    pixels = [[round(x * edge) for x, edge in zip(box, (*photo.size, *photo.size), strict=True)] for box in boxes]
    light = Pillow.new("L", photo.size, round(255 * _SHADE))
    for index in sorted(range(len(boxes)), key=lambda index: weights[index]):
        left, upper, right, lower = pixels[index]
        shade = round(255 * (_SHADE + (1 - _SHADE) * weights[index] / top))
        light.paste(shade, (left, upper, right, lower))
    soft = light.filter(ImageFilter.GaussianBlur(_BLUR))
    picture = Pillow.composite(photo, Pillow.new("RGB", photo.size), soft)
    left, upper, right, lower = pixels[max(range(len(boxes)), key=lambda index: weights[index])]
    ImageDraw.Draw(picture).rectangle((left, upper, right - 1, lower - 1), outline=_RED, width=3)
    return picture
