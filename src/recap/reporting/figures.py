"""Contact sheets: photos with the captions that each row of a table gives them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recap.core.config import Table
from recap.core.files.atomic import atomic_path, write_text
from recap.data.corpus.corpus import VIEWS
from recap.data.files.images import ImageSource
from recap.reporting.content import plain
from recap.reporting.samples import Sample, choose_samples, samples_markdown

if TYPE_CHECKING:
    from PIL.Image import Image

_PHOTO = 300  # edge of the box of a photo, in pixels
_TEXT = 560  # width of the text beside it
_MARGIN = 24
_SIZE = 17  # font size
_LEADING = 23  # from line to line
_INK, _GREY, _PAPER = (20, 20, 20), (110, 110, 110), (255, 255, 255)
_ROW_COLOURS = ((0, 84, 147), (176, 58, 20), (24, 112, 60), (112, 48, 140), (140, 100, 0))

Styled = tuple[str, str, tuple[int, int, int]]  # text, style (bold or plain), colour


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
    """Write ``<name>_captions.png`` (photos, captions of every row, references) and the same text as ``.md``.

    Args:
        name: id of the table.
        table: the table.
        seeds: the first seed's captions are shown.
        corpus_path: the corpus with references and file names.
        image_roots: folders or zips with the photos.
        scores_root: folder above ``<dataset>/<subset>/...`` with ``captions.<split>.json``.
        out: folder.
        count: number of photos, drawn by chance, the same on every run.

    Returns:
        The samples shown.

    Raises:
        RecapError: captions and corpus do not fit together, or a photo is missing or broken.
    """
    samples = choose_samples(
        name=name, table=table, seeds=seeds, corpus_path=corpus_path, scores_root=scores_root, count=count
    )
    source = ImageSource(list(image_roots))
    photos = [_side_by_side([source.open_rgb(file) for file in sample.file.split(VIEWS)]) for sample in samples]
    sheet = contact_sheet(samples, photos, title=plain(table.title), scale=plain(table.scale))
    picture = out / f"{name}_captions.png"
    with atomic_path(picture) as temporary:
        sheet.save(temporary, format="PNG")
    text = samples_markdown(samples, title=table.title, scale=table.scale, picture=picture.name)
    write_text(out / f"{name}_captions.md", text)
    return samples


def contact_sheet(samples: Sequence[Sample], photos: Sequence[Image], *, title: str, scale: str) -> Image:
    """Return the sheet as an RGB picture: cards in two columns (one where there are at most two samples)."""
    from PIL import Image, ImageDraw

    columns = 1 if len(samples) <= 2 else 2
    fonts = fonts_of_sheets()
    texts = [_card_lines(number, sample, fonts) for number, sample in enumerate(samples, start=1)]
    heights = [max(_PHOTO, _LEADING * len(lines)) + _MARGIN for lines in texts]
    rows = [range(start, min(start + columns, len(samples))) for start in range(0, len(samples), columns)]
    card_width = _PHOTO + _TEXT + 2 * _MARGIN
    parts = ((title, "bold", _INK), (f"Scale of this run: {scale}", "plain", _GREY))
    width = columns * card_width - _MARGIN
    head = [(line, style, colour) for text, style, colour in parts for line in wrapped(text, fonts[style], width)]
    height = _MARGIN + _LEADING * len(head) + _MARGIN + sum(max(heights[i] for i in row) for row in rows)
    sheet = Image.new("RGB", (columns * card_width + _MARGIN, height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    _write(draw, fonts, (_MARGIN, _MARGIN), head)
    top = 2 * _MARGIN + _LEADING * len(head)
    for row in rows:
        for column, index in enumerate(row):
            left = _MARGIN + column * card_width
            sheet.paste(_fitted(photos[index]), (left, top))
            _write(draw, fonts, (left + _PHOTO + _MARGIN, top), texts[index])
        top += max(heights[i] for i in row)
    return sheet


def _side_by_side(views: Sequence[Image]) -> Image:
    """Return the views of an example as one picture, from left to right; a lone one as it is."""
    from PIL import Image

    if len(views) == 1:
        return views[0]
    joined = Image.new("RGB", (sum(view.width for view in views), max(view.height for view in views)), _PAPER)
    left = 0
    for view in views:
        joined.paste(view, (left, 0))
        left += view.width
    return joined


def _fitted(photo: Image) -> Image:
    """Return a photo scaled into the box, small ones enlarged."""
    from PIL import Image

    scale = _PHOTO / max(photo.size)
    size = (max(1, round(photo.width * scale)), max(1, round(photo.height * scale)))
    return photo.resize(size, Image.Resampling.LANCZOS)


def _card_lines(number: int, sample: Sample, fonts: dict[str, Any]) -> list[Styled]:
    """Return the text beside one photo: every row's label and caption, then the references in grey."""
    parts: list[Styled] = [(f"{number}. image {sample.image_id}", "plain", _GREY)]
    for index, (label, caption) in enumerate(sample.captions):
        parts.append((label, "bold", _ROW_COLOURS[index % len(_ROW_COLOURS)]))
        parts.append((caption or "(empty caption)", "plain", _INK))
    parts += [(f"· {reference}", "plain", _GREY) for reference in sample.references]
    return [(line, style, colour) for text, style, colour in parts for line in wrapped(text, fonts[style], _TEXT)]


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


def fonts_of_sheets() -> dict[str, Any]:
    """Return the fonts that come with matplotlib, so that a sheet looks the same everywhere."""
    import matplotlib
    from PIL import ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    names = {"plain": "DejaVuSans.ttf", "bold": "DejaVuSans-Bold.ttf"}
    return {style: ImageFont.truetype(str(folder / file), _SIZE) for style, file in names.items()}


def _write(draw: Any, fonts: dict[str, Any], position: tuple[int, int], lines: Sequence[Styled]) -> None:
    """Write lines of text below each other."""
    left, top = position
    for number, (text, style, colour) in enumerate(lines):
        draw.text((left, top + number * _LEADING), text, font=fonts[style], fill=colour)
