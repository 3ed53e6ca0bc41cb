"""Figures of VisualGPT's gates: captions colored by visual score, gates by layer, scores by word.

The visual score of a word is the mean visual gate of the last decoder layer behind it (VisualGPT, section 5.6),
normalized over all captions to 0 .. 1.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from recap.core.files import atomic_path, no_formula, write_text
from recap.data.corpus import VIEWS
from recap.data.files.images import ImageSource
from recap.reporting.figures import sheet_fonts, side_by_side, wrapped
from recap.reporting.text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL.Image import Image

_OFTEN = 5  # occurrences from which on a word is listed among the highest and lowest
_LISTED = 12  # words at each end
_EDGE, _TEXT_WIDTH, _MARGIN, _LINE = 180, 620, 20, 30  # pixels
_LOW, _HIGH = (200, 30, 30), (30, 60, 200)  # red: said by the language side, blue: by the image
_TEXT_COLOR, _BACKGROUND = (20, 20, 20), (255, 255, 255)


@dataclass(frozen=True)
class CaptionGates:
    """A caption and the gates behind its words.

    Attributes:
        visual, language: [T][L], means of B_vis and B_lan over the width, the encoder's levels and a word's pieces, per
            decoder layer.
    """

    image_id: int  #: of the image
    words: list[str]  #: of the caption, T
    visual: list[list[float]]
    language: list[list[float]]


@dataclass(frozen=True)
class VisualScores:
    """Normalizes visual gates of the last layer to 0 .. 1 over all words of all captions."""

    low: float
    high: float

    @classmethod
    def of(cls, captions: Sequence[CaptionGates]) -> VisualScores:
        """Return the scale of some captions."""
        gates = [layers[-1] for caption in captions for layers in caption.visual]
        return cls(min(gates, default=0.0), max(gates, default=1.0))

    def __call__(self, gate: float) -> float:
        """Return the visual score of a gate."""
        return (gate - self.low) / (self.high - self.low) if self.high > self.low else 0.5


def write_gates(
    *,
    captions: Sequence[CaptionGates],
    shown: Sequence[CaptionGates],
    files: Mapping[int, str],
    image_roots: Sequence[Path],
    heading: str,
    out: Mapping[str, Path],
) -> None:
    """Write ``gates.png`` (gates by layer, words), ``gates.csv`` (scores of words) and ``words.png`` (colored captions
    beside their images).

    Args:
        captions, shown: of all images, and those that are shown in colors.
        files, image_roots: image id -> image file, and the folders or zips with these.
        heading: text above the figures: the table and the scale of the run.
        out: the path of each file.
    """
    scores = VisualScores.of(captions)
    by_word = _by_word(captions, scores)
    source = ImageSource(list(image_roots))
    images = [side_by_side([source.open_rgb(file) for file in files[c.image_id].split(VIEWS)]) for c in shown]
    sheet = _colored(shown, images, scores, heading)
    with atomic_path(out["words.png"]) as temporary:
        sheet.save(temporary, format="PNG")
    _draw(captions, by_word, heading, out["gates.png"])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("word", "occurrences", "visual_score"))
    ordered = sorted(by_word.items(), key=lambda item: (-fmean(item[1]), item[0]))
    writer.writerows((no_formula(word), len(values), repr(fmean(values))) for word, values in ordered)
    write_text(out["gates.csv"], text.getvalue())


def _by_word(captions: Sequence[CaptionGates], scores: VisualScores) -> dict[str, list[float]]:
    """Return the visual scores of every occurrence of each word."""
    found: dict[str, list[float]] = defaultdict(list)
    for caption in captions:
        for word, layers in zip(caption.words, caption.visual, strict=True):
            found[word].append(scores(layers[-1]))
    return dict(found)


def _draw(
    captions: Sequence[CaptionGates],
    by_word: Mapping[str, list[float]],
    heading: str,
    png: Path,
) -> None:
    """Draw gates by layer, and the words of highest and lowest visual score."""
    from textwrap import fill

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    canvas = FigureCanvasAgg(Figure(figsize=(9, 8.5), dpi=150, layout="constrained"))
    layers, ends = canvas.figure.subplots(2, 1, height_ratios=(1, 1.1))
    _layers(layers, captions)
    _ends(ends, by_word)
    title = canvas.figure.suptitle(fill(plain(heading), 110), fontsize=9)
    for text in [title, *ends.get_yticklabels()]:
        text.set_parse_math(False)
    with atomic_path(png) as temporary:
        canvas.figure.savefig(temporary, format="png")


def _layers(axes: Axes, captions: Sequence[CaptionGates]) -> None:
    """Draw box plots of both gates by decoder layer, over all words."""
    from recap.reporting.colours import COLOURS

    for offset, color, label, gates in (
        (-0.18, COLOURS[0], "visual gate", [layers for caption in captions for layers in caption.visual]),
        (0.18, COLOURS[1], "language gate", [layers for caption in captions for layers in caption.language]),
    ):
        values: list[Any] = list(zip(*gates, strict=True))
        places = [layer + offset for layer in range(len(values))]
        style = {"color": color}
        drawn = axes.boxplot(
            values, positions=places, widths=0.3, showfliers=False, medianprops=style, boxprops=style,
            whiskerprops=style, capprops=style,
        )  # fmt: skip
        drawn["boxes"][0].set_label(label)
    axes.set_xticks(range(len(values)), [str(layer) for layer in range(len(values))])
    axes.set_xlabel("decoder layer")
    axes.set_ylabel("gate, mean over the width")
    axes.set_title("Gates behind all words (box: quartiles, whiskers: 1.5 times their distance)", fontsize=10)
    axes.legend(frameon=False)
    axes.grid(axis="y", alpha=0.3)


def _ends(axes: Axes, by_word: Mapping[str, list[float]]) -> None:
    """List the words of the highest and of the lowest mean visual score."""
    from recap.reporting.colours import COLOURS

    often = sorted((fmean(values), word) for word, values in by_word.items() if len(values) >= _OFTEN)
    ends = often if len(often) <= 2 * _LISTED else [*often[:_LISTED], *often[-_LISTED:]]
    axes.barh([plain(word) for _, word in ends], [score for score, _ in ends], color=COLOURS[0])
    axes.set_title(f"Words of the highest and lowest mean visual score (at least {_OFTEN} times)", fontsize=10)
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlim(0, 1)


def _colored(shown: Sequence[CaptionGates], images: Sequence[Image], scores: VisualScores, heading: str) -> Image:
    """Return a sheet with each image and its caption, words from red (language) to blue (image)."""
    from PIL import Image, ImageDraw

    fonts = sheet_fonts()
    width = _EDGE + _TEXT_WIDTH + 3 * _MARGIN
    lines = wrapped(f"{plain(heading)} Blue: high visual score, red: low.", fonts["plain"], width - 2 * _MARGIN)
    top = _MARGIN + _LINE * len(lines) + _MARGIN
    sheet = Image.new("RGB", (width, top + len(shown) * (_EDGE + _MARGIN)), _BACKGROUND)
    draw, numbers = ImageDraw.Draw(sheet), fonts["plain"].font_variant(size=11)
    for number, line in enumerate(lines):
        draw.text((_MARGIN, _MARGIN + number * _LINE), line, font=fonts["plain"], fill=_TEXT_COLOR)
    for caption, image in zip(shown, images, strict=True):
        small = image.copy()
        small.thumbnail((_EDGE, _EDGE))
        sheet.paste(small, (_MARGIN, top))
        for left, down, word, score in _placed(caption, scores, fonts["bold"]):
            place = (2 * _MARGIN + _EDGE + left, top + down)
            draw.text(place, word, font=fonts["bold"], fill=_color(score))
            draw.text((place[0], place[1] + 20), f"{score:.2f}", font=numbers, fill=_color(score))
        top += _EDGE + _MARGIN
    return sheet


def _placed(caption: CaptionGates, scores: VisualScores, font: Any) -> Iterator[tuple[int, int, str, float]]:
    """Yield place, text and visual score of each word, in lines of the text's width."""
    left = down = 0
    for word, layers in zip(caption.words, caption.visual, strict=True):
        text = plain(word)
        length = int(max(font.getlength(text), 30))
        if left and left + length > _TEXT_WIDTH:
            left, down = 0, down + _LINE + 18
        yield left, down, text, scores(layers[-1])
        left += length + 10


def _color(score: float) -> tuple[int, int, int]:
    """Return the color of a visual score, red at 0, blue at 1."""
    mixed = [round(low + (high - low) * score) for low, high in zip(_LOW, _HIGH, strict=True)]
    return mixed[0], mixed[1], mixed[2]
