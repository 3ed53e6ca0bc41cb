"""Attention maps as a figure: the image once per word, dark where the weight is low, the largest outlined in red."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recap.core.files import atomic_path
from recap.data.files.images import ImageSource
from recap.reporting.figures import sheet_fonts, wrapped
from recap.reporting.text import plain

if TYPE_CHECKING:
    from PIL.Image import Image

_EDGE, _GAP, _LINE = 132, 10, 24  # pixels: edge of a thumbnail, space between two, height of a line of text
_PER_ROW = 10  # thumbnails per row
_SHADE = 0.25  # brightness where the weight is 0
_BLUR = 5  # pixels, softens the edges of boxes
_TEXT_COLOR, _RED, _BACKGROUND = (20, 20, 20), (220, 20, 20), (255, 255, 255)

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
    return [
        (column / side, row / side, (column + 1) / side, (row + 1) / side)
        for row in range(side)
        for column in range(side)
    ]


def write_attention(
    *,
    heading: str,
    maps: Mapping[int, Sequence[AttentionMap]],
    files: Mapping[int, str],
    image_roots: Sequence[Path],
    out: Path,
) -> None:
    """Write the figure: for each image and model a row of thumbnails, one per word.

    Args:
        heading: text above the figure: the table and the scale of the run.
        maps: image id -> one attention map per model.
        files: image id -> image file.
        image_roots: folders or zips with the images.
        out: the PNG to write.
    """
    from PIL import Image as Pillow

    source = ImageSource(list(image_roots))
    strips = [_strip(source.open_rgb(files[image_id]), each) for image_id, models in maps.items() for each in models]
    strips.insert(0, _heading(heading, strips[0].width))
    sheet = Pillow.new("RGB", (strips[0].width, sum(s.height for s in strips)), _BACKGROUND)
    top = 0
    for strip in strips:
        sheet.paste(strip, (0, top))
        top += strip.height
    with atomic_path(out) as temporary:
        sheet.save(temporary, format="PNG")


def _heading(text: str, width: int) -> Image:
    """Return the text above the figure."""
    from PIL import Image as Pillow
    from PIL import ImageDraw

    font = sheet_fonts()["plain"]
    lines = wrapped(plain(text), font, width - 2 * _GAP)
    strip = Pillow.new("RGB", (width, len(lines) * _LINE + 2 * _GAP), _BACKGROUND)
    ImageDraw.Draw(strip).multiline_text((_GAP, _GAP), "\n".join(lines), font=font, fill=_TEXT_COLOR)
    return strip


def _strip(image: Image, attention: AttentionMap) -> Image:
    """Return the row, or rows, of one model for one image."""
    from PIL import Image as Pillow
    from PIL import ImageDraw

    fonts, step = sheet_fonts(), _EDGE + _GAP
    lines = -(-len(attention.words) // _PER_ROW)
    size = (_GAP + (_PER_ROW + 1) * step, _LINE + lines * (step + _LINE) + _GAP)
    strip = Pillow.new("RGB", size, _BACKGROUND)
    draw = ImageDraw.Draw(strip)
    draw.text((_GAP, 2), plain(f"{attention.label}: {' '.join(attention.words)}"), font=fonts["bold"], fill=_TEXT_COLOR)
    thumbnail = image.resize((_EDGE, _EDGE), Pillow.Resampling.LANCZOS)  # a square, as the backbone's input
    strip.paste(thumbnail, (_GAP, _LINE + _GAP))
    for index, (word, weights) in enumerate(zip(attention.words, attention.weights, strict=True)):
        left, top = _GAP + (1 + index % _PER_ROW) * step, _LINE + _GAP + (index // _PER_ROW) * (step + _LINE)
        strip.paste(shaded(thumbnail, attention.boxes, weights), (left, top))
        draw.text((left, top + _EDGE + 1), plain(word), font=fonts["plain"], fill=_TEXT_COLOR)
    return strip


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
    ImageDraw.Draw(darkened).rectangle(
        (left, upper, max(left, right - 1), max(upper, lower - 1)), outline=_RED, width=3
    )
    return darkened
