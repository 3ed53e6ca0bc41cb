"""Contact sheets: images with the captions of each row of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recap.core.files import atomic_path, write_text
from recap.data.corpus import VIEWS
from recap.data.files.images import ImageSource
from recap.reporting.colours import colour_of
from recap.reporting.samples import Sample, choose_samples, samples_markdown
from recap.reporting.text import plain
from recap.settings import Table

if TYPE_CHECKING:
    from PIL.Image import Image

_EDGE = 300  # edge of the box of an image, in pixels
_TEXT_WIDTH = 560  # of the text beside it
_MARGIN = 24
_FONT_SIZE = 17
_LINE = 23  # pixels from line to line
_TEXT_COLOR, _GREY, _BACKGROUND = (20, 20, 20), (110, 110, 110), (255, 255, 255)
_DARKER = 0.7  # of the color of a line, as text on white

Styled = tuple[str, str, tuple[int, int, int]]  # text, style (bold or plain), color


def write_samples(
    *,
    name: str,
    table: Table,
    seeds: Sequence[int],
    corpus_path: Path,
    image_roots: Sequence[Path],
    scores_root: Path,
    out: Path,
    count: int,
) -> list[Sample]:
    """Write ``<name>_captions.png`` (images, captions of every row, references) and the same text as ``.md``.

    Args:
        name: id of the table.
        table: the table.
        seeds: the first seed's captions are shown.
        corpus_path: the corpus with references and file names.
        image_roots: folders or zips with the images.
        scores_root: folder above ``<dataset>/<subset>/...`` with the captions and scores of each run.
        out: folder.
        count: number of images, drawn at random, the same ones on every run; those of the table's examples follow.

    Returns:
        The samples shown.
    """
    samples = choose_samples(
        name=name, table=table, seeds=seeds, corpus_path=corpus_path, scores_root=scores_root, count=count
    )
    source = ImageSource(list(image_roots))
    images = [side_by_side([source.open_rgb(file) for file in sample.file.split(VIEWS)]) for sample in samples]
    sheet = contact_sheet(samples, images, title=plain(table.title), scale=plain(table.scale))
    figure = out / f"{name}_captions.png"
    with atomic_path(figure) as temporary:
        sheet.save(temporary, format="PNG")
    text = samples_markdown(samples, table=table, figure=figure.name)
    write_text(out / f"{name}_captions.md", text)
    return samples


def contact_sheet(samples: Sequence[Sample], images: Sequence[Image], *, title: str, scale: str) -> Image:
    """Return the sheet as an RGB image: cards in two columns (one where there are at most two samples)."""
    from PIL import Image, ImageDraw

    columns = 1 if len(samples) <= 2 else 2
    fonts = sheet_fonts()
    texts = [_card_lines(number, sample, fonts) for number, sample in enumerate(samples, start=1)]
    heights = [max(_EDGE, _LINE * len(lines)) + _MARGIN for lines in texts]
    rows = [range(start, min(start + columns, len(samples))) for start in range(0, len(samples), columns)]
    card_width = _EDGE + _TEXT_WIDTH + 2 * _MARGIN
    parts = ((title, "bold", _TEXT_COLOR), (scale, "plain", _GREY))
    width = columns * card_width - _MARGIN
    head = [(line, style, colour) for text, style, colour in parts for line in wrapped(text, fonts[style], width)]
    height = _MARGIN + _LINE * len(head) + _MARGIN + sum(max(heights[i] for i in row) for row in rows)
    sheet = Image.new("RGB", (columns * card_width + _MARGIN, height), _BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    _write(draw, fonts, (_MARGIN, _MARGIN), head)
    top = 2 * _MARGIN + _LINE * len(head)
    for row in rows:
        for column, index in enumerate(row):
            left = _MARGIN + column * card_width
            sheet.paste(_fitted(images[index]), (left, top))
            _write(draw, fonts, (left + _EDGE + _MARGIN, top), texts[index])
        top += max(heights[i] for i in row)
    return sheet


def side_by_side(views: Sequence[Image]) -> Image:
    """Return the views of an example side by side as one image; a single view unchanged."""
    from PIL import Image

    if len(views) == 1:
        return views[0]
    joined = Image.new("RGB", (sum(view.width for view in views), max(view.height for view in views)), _BACKGROUND)
    left = 0
    for view in views:
        joined.paste(view, (left, 0))
        left += view.width
    return joined


def _fitted(image: Image) -> Image:
    """Return an image scaled to fit the box; small ones are enlarged."""
    from PIL import Image

    scale = _EDGE / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.LANCZOS)


def _card_lines(number: int, sample: Sample, fonts: dict[str, Any]) -> list[Styled]:
    """Return the text beside one image: every row's label and caption, then the references in gray."""
    from PIL.ImageColor import getrgb

    parts: list[Styled] = [(f"{number}. {sample.heading()}", "plain", _GREY)]
    colours = colour_of(caption.label for caption in sample.captions)
    for caption in sample.captions:
        red, green, blue = (round(_DARKER * part) for part in getrgb(colours[caption.label])[:3])
        parts.append((caption.heading(), "bold", (red, green, blue)))
        parts.append((caption.text or "(empty caption)", "plain", _TEXT_COLOR))
    parts += [(f"· {reference}", "plain", _GREY) for reference in sample.references]
    return [(line, style, colour) for text, style, colour in parts for line in wrapped(text, fonts[style], _TEXT_WIDTH)]


def wrapped(text: str, font: Any, width: int) -> list[str]:
    """Break text into lines of at most ``width`` pixels, at spaces where there are any."""
    lines = [""]
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


def sheet_fonts() -> dict[str, Any]:
    """Return the fonts that come with matplotlib, so that a sheet is the same on every machine."""
    import matplotlib
    from PIL import ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    names = {"plain": "DejaVuSans.ttf", "bold": "DejaVuSans-Bold.ttf"}
    return {style: ImageFont.truetype(str(folder / file), _FONT_SIZE) for style, file in names.items()}


def _write(draw: Any, fonts: dict[str, Any], position: tuple[int, int], lines: Sequence[Styled]) -> None:
    """Write lines of text below each other."""
    left, top = position
    for number, (text, style, colour) in enumerate(lines):
        draw.text((left, top + number * _LINE), text, font=fonts[style], fill=colour)
