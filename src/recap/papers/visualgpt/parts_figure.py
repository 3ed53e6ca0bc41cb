"""VisualGPT's figures of parts of speech: their shares in captions and in a text (2), and their visual scores (10)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import TYPE_CHECKING

from recap.core.errors import DamagedData, DataError, MissingData
from recap.core.files import atomic_path, cell, csv_text, write_text
from recap.data.corpus import Corpus
from recap.data.parts_of_speech import TAGGED, count_kinds, kind_of, needed_tagger
from recap.data.texts import read_texts
from recap.evaluation.figures import DrawnModels
from recap.papers.visualgpt.figure_settings import PartsOfSpeechFigure
from recap.papers.visualgpt.gates_figure import CaptionGates, VisualScores
from recap.reporting.text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNKNOWN = "<unk>"  # what WikiText has in place of rare words
_END = re.compile(r"[.!?](?:\s|$)")
_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")


@dataclass(frozen=True)
class Share:
    """A part of speech, its share in captions and in a text in percent, and what is printed of their difference."""

    part: str
    captions: float
    text: float
    printed: float | None

    @property
    def above(self) -> float | None:
        """By how many percent the share in captions is above that in the text; None: the text has none."""
        return 100 * (self.captions / self.text - 1) if self.text else None

    def said(self) -> str:
        """Return the notes beside the bars."""
        parts = [] if self.above is None else [f"{self.above:+.0f} %"]
        return ", ".join(parts + ([] if self.printed is None else [f"paper {self.printed:+g} %"]))


def draw_shares(figure: PartsOfSpeechFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Draw and write the share of each part of speech in the training captions and in a text."""
    name, tag = needed_tagger()
    corpus, (text,) = Corpus.read(models.corpus), models.texts
    captions = _spread(lambda: (words for texts in corpus.captions("train").values() for words in _sentences(texts)))
    ours, other = _shares(tag(captions), models.corpus), _shares(tag(_spread(lambda: _words(text))), text)
    rows = [Share(part, ours[part], other[part], figure.printed.get(part)) for part in ours | other]
    rows.sort(key=lambda row: (-row.captions, row.part))
    header = ("part_of_speech", "captions_percent", "text_percent", "captions_above_text_percent", "printed_percent")
    cells = ((row.part, row.captions, row.text, row.above, row.printed) for row in rows)
    write_text(files["parts_of_speech.csv"], csv_text([header, *(map(cell, each) for each in cells)]))
    heading = "  |  ".join(filter(None, [f"Parts of speech, tagged by {name}", models.heading]))
    labels = (f"captions of {corpus.dataset}", figure.title)
    _save(lambda axes: _bars_of_shares(axes, rows, labels), heading, files["parts_of_speech.png"], len(rows))


def _bars_of_shares(axes: Axes, rows: Sequence[Share], labels: tuple[str, str]) -> None:
    from recap.reporting.colours import COLOURS

    for offset, values, label, color in (
        (-0.4, [row.captions for row in rows], labels[0], COLOURS[0]),
        (0.0, [row.text for row in rows], labels[1], COLOURS[1]),
    ):
        places = [place + offset for place in range(len(rows))]
        axes.barh(places, values, height=0.4, align="edge", color=color, label=plain(label))
    for place, row in enumerate(rows):
        end = (max(row.captions, row.text), place)
        axes.annotate(row.said(), end, (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [row.part for row in rows])
    axes.margins(x=0.3)
    axes.set_xlabel("share of the words, percent")
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def _spread(lists: Callable[[], Iterable[list[str]]]) -> list[list[str]]:
    """Return at most TAGGED of the lists, evenly spread; they are read twice."""
    every = -(-sum(1 for _ in lists()) // TAGGED)
    return list(islice(lists(), 0, None, max(1, every)))


def _words(path: Path) -> Iterator[list[str]]:
    """Yield the words of each sentence of a text; WikiText's titles are left out, and its marks between words."""
    lines = _tokens(path) if path.suffix == ".tokens" else read_texts(path)
    plain_lines = (line for line in lines if not line.lstrip().startswith("= "))
    yield from _sentences(line.replace(_UNKNOWN, "").replace(" @-@ ", "-").replace(" '", "'") for line in plain_lines)


def _sentences(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words of each sentence of texts, capital letters kept: they tell names from nouns."""
    for text in texts:
        for sentence in _END.split(text):
            if words := _WORD.findall(sentence):
                yield words


def _tokens(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as file:
            yield from file
    except FileNotFoundError as error:
        raise MissingData(f"{path}: no such text; correct `text` of the figure or the inputs folder") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DamagedData(f"{path}: damaged, or not UTF-8 ({error}); fetch it again") from error


def _shares(tag_lists: Sequence[Sequence[str]], where: Path) -> defaultdict[str, float]:
    """Return the share of each part of speech, in percent; of others 0."""
    kinds = count_kinds(tag_lists)
    if not kinds:
        raise DataError(f"{where}: has no words to tag; name another text")
    return defaultdict(float, {kind: 100 * count / kinds.total() for kind, count in kinds.items()})


def part_scores(captions: Sequence[CaptionGates], scores: VisualScores) -> tuple[str, dict[str, list[float]]]:
    """Return the name of the tagger, and the visual scores of all words of each part of speech."""
    name, tag = needed_tagger()
    spoken = [caption for caption in captions if caption.words]
    kinds: dict[str, list[float]] = defaultdict(list)
    for caption, tags in zip(spoken, tag([caption.words for caption in spoken]), strict=True):
        for one, layers in zip(tags, caption.visual, strict=True):
            kinds[kind_of(one)].append(scores(layers[-1]))
    return name, dict(sorted(kinds.items(), key=lambda item: -fmean(item[1])))


def write_part_scores(
    captions: Sequence[CaptionGates], *, printed: Mapping[str, float], heading: str, out: Mapping[str, Path]
) -> None:
    """Write ``parts.png`` and ``parts.csv``: the mean visual score of each part of speech beside the printed one."""
    name, kinds = part_scores(captions, VisualScores.of(captions))
    rows = [(part, kinds.get(part, []), printed.get(part)) for part in dict.fromkeys([*kinds, *printed])]
    header = ("part_of_speech", "words", "visual_score", "printed")
    cells = ((part, len(values), fmean(values) if values else None, score) for part, values, score in rows)
    write_text(out["parts.csv"], csv_text([header, *(map(cell, each) for each in cells)]))

    def draw(axes: Axes) -> None:
        from recap.reporting.colours import COLOURS

        means = [fmean(values) if values else 0.0 for _, values, _ in rows]
        axes.barh(range(len(rows)), means, color=COLOURS[0], label="here")
        marked = [(score, place) for place, (*_, score) in enumerate(rows) if score is not None]
        if marked:
            axes.plot(*zip(*marked, strict=True), "D", color=COLOURS[1], markersize=6, label="printed")
            axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
        axes.set_yticks(range(len(rows)), [f"{part} ({len(values):,})" for part, values, _ in rows])
        axes.set_xlim(0, 1)
        axes.set_xlabel("mean visual score of the words (number of words in brackets)")

    _save(draw, f"Visual score by part of speech, tagged by {name}  |  {heading}", out["parts.png"], len(rows))


def _save(draw: Callable[[Axes], None], heading: str, png: Path, bars: int) -> None:
    """Draw horizontal bars, the first on top, under a heading."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    canvas = FigureCanvasAgg(Figure(figsize=(6.8, 1.6 + 0.32 * bars), dpi=200, layout="constrained"))
    axes = canvas.figure.subplots()
    draw(axes)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    title = canvas.figure.suptitle(fill(plain(heading), 100), fontsize=8)
    legend = axes.get_legend()
    for text in [title, *axes.get_yticklabels(), *(legend.get_texts() if legend else [])]:
        text.set_parse_math(False)
    with atomic_path(png) as temporary:
        canvas.figure.savefig(temporary, format="png")
