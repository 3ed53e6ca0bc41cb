"""VisualGPT's figures: parts of speech (2 and 10),
gate functions (4), and the gates behind words (5, 6 and 11).

The visual score of a word is the mean visual gate of the last decoder layer behind it, normalized
over all captions to 0 .. 1 (section 5.6).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from statistics import fmean
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from recap.core.errors import DataError, TrainingError
from recap.core.files import atomic_path, csv_text, csv_value, reading, write_text
from recap.core.hashing import generator
from recap.data.caption_files import read_texts
from recap.data.corpus import Corpus, pictures_of
from recap.data.files.images import ImageSource, read_photo
from recap.data.tokenizer import TAGGED, TAGGER, count_kinds, kind_of, tag
from recap.data.vocabulary import BOS, PAD, UNK, AnyVocabulary
from recap.evaluation.figures import BATCH, CaptionedImages, DrawnModels
from recap.papers.visualgpt.model import gates_above, visual_gates
from recap.papers.visualgpt.settings import GateFunctionsFigure, GatesFigure, PartsOfSpeechFigure
from recap.tables.colours import COLOURS
from recap.tables.text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@contextmanager
def _drawing(
    png: Path, size: tuple[float, float], *, dpi: int = 200, math: bool = False
) -> Iterator[Figure]:
    """Give a figure to draw in, and write it; `math`: dollar signs enclose formulas."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"text.parse_math": math}):
        canvas = FigureCanvasAgg(Figure(figsize=size, dpi=dpi, layout="constrained"))
        yield canvas.figure
        with atomic_path(png) as temporary:
            canvas.figure.savefig(temporary, format="png")


@contextmanager
def _bars(png: Path, heading: str, bars: int) -> Iterator[Axes]:
    """Give axes for horizontal bars, the first on top, under a heading."""
    with _drawing(png, (6.8, 1.6 + 0.32 * bars)) as drawing:
        axes = drawing.subplots()
        yield axes
        axes.invert_yaxis()
        axes.grid(axis="x", alpha=0.25)
        axes.set_axisbelow(True)
        drawing.suptitle(fill(plain(heading), 100), fontsize=8)


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    write_text(path, csv_text([header, *(map(csv_value, row) for row in rows)]))


# Figure 4: gate functions

REACH, POINTS = 5.0, 2001  # the horizontal axis goes from minus REACH to REACH
JUMP = 0.05  # from point to point; a sigmoid rises by a 40th of it


def broken(gate: Tensor) -> Tensor:
    """Return the values with NaN after each jump, so that no line joins its ends."""
    jumps = gate.diff(prepend=gate[:1]).abs() > JUMP
    return gate.masked_fill(jumps, float("nan"))


def draw_gate_functions(
    figure: GateFunctionsFigure, models: DrawnModels, files: Mapping[str, Path]
) -> None:
    """Draw both gates at the figure's threshold and complementary gates, plain, normalized."""
    inputs = torch.linspace(-REACH, REACH, POINTS)
    visual = inputs.sigmoid()
    with _drawing(files["gate_functions.png"], (6.8, 3.4), math=True) as drawing:
        panels = drawing.subplots(1, 2, sharey=True)
        for axes, title, normalized in zip(
            panels, ("Self-resurrecting activation", "Normalized"), (False, True), strict=True
        ):
            gates = gates_above(visual, tau=figure.tau, normalized=normalized)
            for gate, color, side in zip(gates, COLOURS[:2], ("vis", "lan"), strict=True):
                axes.plot(inputs, broken(gate), color=color, linewidth=1.8, label=f"$B^{{{side}}}$")
            gates = gates_above(visual, tau=0.0, normalized=normalized)
            for gate, label in zip(gates, ("complementary gates (\u03c4 = 0)", None), strict=True):
                axes.plot(
                    inputs, gate, color="0.55", linewidth=1, linestyle="--", zorder=1, label=label
                )
            axes.axhline(figure.tau, color="0.8", linewidth=0.8, zorder=0)
            axes.set_xlabel("function input")
            axes.grid(alpha=0.25)
            axes.set_title(f"{title}, \u03c4 = {figure.tau:g}", fontsize=9)
        panels[0].set_ylabel("function value")
        drawing.legend(
            *panels[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=3,
            frameon=False,
        )


# Figures 5, 6, 10 and 11: the gates behind the words of captions


@dataclass(frozen=True)
class CaptionGates:
    """The T words of an image's caption, and the gates of L decoder layers behind each of them."""

    image_id: int
    words: list[str]
    #: [T][L], means of B_vis over the width, the encoder's levels and a word's pieces
    visual: list[list[float]]
    language: list[list[float]]  #: of B_lan


def draw_gates(figure: GatesFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Caption all test images with a model and draw the gates behind the words."""
    (label,) = models.runs
    corpus = Corpus.read(models.corpus)
    images = sorted(corpus.captions("test"))
    captions = list(_captions_with_gates(models, label, images, figure.beam))
    if not any(caption.words for caption in captions):
        raise TrainingError(
            f"{models.runs[label]}: all its captions are empty, so no word has a gate; train it "
            "longer"
        )
    count = min(figure.count, len(captions))
    drawn = generator(0, "gates").choice(len(captions), size=count, replace=False).tolist()
    heading = "  |  ".join(filter(None, [f"Gates of {label}, first seed", models.heading]))
    write_part_scores(captions, printed=figure.printed, heading=heading, out=files)
    write_gates(captions, heading=heading, out=files)
    write_words(
        captions,
        drawn,
        images=pictures_of(models.corpus, models.image_roots),
        files=corpus.files(),
        heading=heading,
        png=files["words.png"],
    )


def _captions_with_gates(
    models: DrawnModels, label: str, image_ids: Sequence[int], beam: int
) -> Iterator[CaptionGates]:
    """Yield a model's captions of images with both gates of every layer."""
    run = CaptionedImages(models, label, image_ids, beam=beam)
    for start in range(0, len(image_ids), BATCH):
        batch = image_ids[start : start + BATCH]
        tokens = pad_sequence(
            [torch.tensor([BOS, *run.captions[image]]) for image in batch], True, PAD
        )[:, None]
        with torch.no_grad():
            memory = run.model.encode(run.sources.read(batch))
        # each [L, B, 1, T]
        visual, language = visual_gates(run.model, tokens, memory)
        for index, image in enumerate(batch):
            pieces = pieces_of_words(run.vocabulary, run.captions[image])
            yield CaptionGates(
                image,
                [run.vocabulary.decode(run.captions[image][word]) for word in pieces],
                [visual[:, index, 0, word].mean(1).tolist() for word in pieces],
                [language[:, index, 0, word].mean(1).tolist() for word in pieces],
            )


def pieces_of_words(vocabulary: AnyVocabulary, tokens: Sequence[int]) -> list[slice]:
    """Return the tokens of each word of a caption: one, or several byte pairs."""
    begins = getattr(vocabulary, "begins_word", None)  # of byte pairs
    starts = []
    for place, token in enumerate(tokens):
        if place == 0 or begins is None or begins[token] or token == UNK:
            starts.append(place)
    return [slice(start, end) for start, end in pairwise([*starts, len(tokens)])]


def visual_scores(captions: Sequence[CaptionGates]) -> list[list[float]]:
    """Return the visual score of each word of each caption, normalized over all to 0 .. 1."""
    last = []  # gates of the last layer
    for caption in captions:
        last.append([layers[-1] for layers in caption.visual])
    low = min(chain.from_iterable(last), default=0.0)
    high = max(chain.from_iterable(last), default=0.0)

    def score(gate: float) -> float:
        return (gate - low) / (high - low) if high > low else 0.5

    return [list(map(score, gates)) for gates in last]


def write_part_scores(
    captions: Sequence[CaptionGates],
    *,
    printed: Mapping[str, float],
    heading: str,
    out: Mapping[str, Path],
) -> None:
    """Write ``parts.png`` and ``parts.csv`` (Figure 10): mean visual scores, ours and printed."""
    scores = [row for row in visual_scores(captions) if row]
    tags = tag([caption.words for caption in captions if caption.words])
    parts: dict[str, list[float]] = defaultdict(list)
    for one, score in zip(chain.from_iterable(tags), chain.from_iterable(scores), strict=True):
        parts[kind_of(one)].append(score)
    ordered = sorted(parts, key=lambda part: -fmean(parts[part]))
    shown = dict.fromkeys([*ordered, *printed])
    means = {part: fmean(values) for part, values in parts.items()}
    header = ("part_of_speech", "words", "visual_score", "printed")
    cells = [(part, len(parts.get(part, [])), means.get(part), printed.get(part)) for part in shown]
    _write_csv(out["parts.csv"], header, cells)
    heading = f"Visual score by part of speech, tagged by {TAGGER}  |  {heading}"
    with _bars(out["parts.png"], heading, len(shown)) as axes:
        ours = [means.get(part, 0.0) for part in shown]
        axes.barh(range(len(shown)), ours, color=COLOURS[0], label="here")
        if printed:
            places = [list(shown).index(part) for part in printed]
            axes.plot(
                list(printed.values()), places, "D", color=COLOURS[1], markersize=6, label="printed"
            )
            axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
        labels = [f"{part} ({words:,})" for part, words, *_ in cells]
        axes.set_yticks(range(len(shown)), labels)
        axes.set_xlim(0, 1)
        axes.set_xlabel("mean visual score of the words (number of words in brackets)")


OFTEN = 5  # occurrences from which on a word is listed among the highest and lowest
LISTED = 12  # words at each end


def write_gates(captions: Sequence[CaptionGates], *, heading: str, out: Mapping[str, Path]) -> None:
    """Write ``gates.png`` (Figure 6: gates by layer; words of extreme scores)
    and ``gates.csv`` (scores of words)."""
    by_word: dict[str, list[float]] = defaultdict(list)
    for caption, scores in zip(captions, visual_scores(captions), strict=True):
        for word, score in zip(caption.words, scores, strict=True):
            by_word[word].append(score)
    ordered = sorted(by_word.items(), key=lambda item: (-fmean(item[1]), item[0]))
    rows = ((word, len(scores), fmean(scores)) for word, scores in ordered)
    _write_csv(out["gates.csv"], ("word", "occurrences", "visual_score"), rows)
    with _drawing(out["gates.png"], (9, 8.5), dpi=150) as drawing:
        layers, ends = drawing.subplots(2, 1, height_ratios=(1, 1.1))
        _draw_layers(layers, captions)
        often = sorted(
            (fmean(scores), word) for word, scores in by_word.items() if len(scores) >= OFTEN
        )
        often = [*often[:LISTED], *often[LISTED:][-LISTED:]]
        ends.barh(
            [plain(word) for _, word in often], [score for score, _ in often], color=COLOURS[0]
        )
        ends.set_title(
            f"Words of the highest and lowest mean visual score (at least {OFTEN} times)",
            fontsize=10,
        )
        ends.tick_params(axis="y", labelsize=7)
        ends.set_xlim(0, 1)
        drawing.suptitle(fill(plain(heading), 110), fontsize=9)


def _draw_layers(axes: Axes, captions: Sequence[CaptionGates]) -> None:
    """Draw box plots of both gates by decoder layer, over all words."""
    visual = chain.from_iterable(caption.visual for caption in captions)
    language = chain.from_iterable(caption.language for caption in captions)
    for offset, color, label, gates in (
        (-0.18, COLOURS[0], "visual gate", visual),
        (0.18, COLOURS[1], "language gate", language),
    ):
        values: list[Any] = list(zip(*gates, strict=True))
        places = [layer + offset for layer in range(len(values))]
        style = {"color": color}
        drawn = axes.boxplot(
            values, positions=places, widths=0.3, showfliers=False,
            medianprops=style, boxprops=style, whiskerprops=style, capprops=style,
        )  # fmt: skip
        drawn["boxes"][0].set_label(label)
    axes.set_xticks(range(len(values)), [str(layer) for layer in range(len(values))])
    axes.set_xlabel("decoder layer")
    axes.set_ylabel("gate, mean over the width")
    axes.set_title(
        "Gates behind all words (box: quartiles, whiskers: 1.5 times their distance)", fontsize=10
    )
    axes.legend(frameon=False)
    axes.grid(axis="y", alpha=0.3)


RED, BLUE = "#c81e1e", "#1e3cc8"  # said by the language side, by the image
COLUMNS, LINES = 62, 4  # letters and lines beside an image


def write_words(
    captions: Sequence[CaptionGates],
    shown: Sequence[int],
    *,
    images: ImageSource,
    files: Mapping[int, str],
    heading: str,
    png: Path,
) -> None:
    """Write ``words.png`` (Figures 5 and 11):
    images with their captions, words colored by visual score.

    `shown` are places in `captions`, `files` has the image file of each image id.
    """
    from matplotlib.colors import LinearSegmentedColormap

    color = LinearSegmentedColormap.from_list("scores", (RED, BLUE))
    scores = visual_scores(captions)
    title = wrap(f"{plain(heading)} Blue: high visual score, red: low.", 100)
    with _drawing(png, (8.6, 0.4 + 0.2 * len(title) + 2 * len(shown)), dpi=100) as drawing:
        drawing.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1)
        drawing.suptitle("\n".join(title), x=0.02, ha="left", fontsize=11)
        rows = drawing.subplots(len(shown), 2, squeeze=False, width_ratios=(1, 3.4))
        for (photo, text), number in zip(rows, shown, strict=True):
            photo.imshow(read_photo(images, files[captions[number].image_id]))
            photo.set_anchor("NW")
            photo.axis("off")
            text.set(xlim=(0, COLUMNS), ylim=(LINES, 0))
            text.axis("off")
            column = line = 0
            for word, score in zip(captions[number].words, scores[number], strict=True):
                if column and column + len(word) > COLUMNS:
                    column = 0
                    line += 1
                style = {"color": color(score), "family": "monospace"}
                text.text(column, line + 0.35, plain(word), fontsize=12, weight="bold", **style)
                text.text(column, line + 0.65, f"{score:.2f}", fontsize=7, **style)
                column += max(len(word), 3) + 1


# Figure 2: parts of speech of captions and of a text

UNKNOWN = "<unk>"  # what WikiText has in place of rare words
END = re.compile(r"[.!?](?:\s|$)")
WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")


def draw_shares(
    figure: PartsOfSpeechFigure, models: DrawnModels, files: Mapping[str, Path]
) -> None:
    """Draw and write the share of each part of speech in the training captions and in a text."""
    corpus = Corpus.read(models.corpus)
    (text,) = models.texts

    def of_captions() -> Iterator[list[str]]:
        for texts in corpus.captions("train").values():
            yield from _sentences(texts)

    ours = _shares(tag(_spread(of_captions)), models.corpus)
    other = _shares(tag(_spread(lambda: _words(text))), text)
    rows = []
    for part in ours | other:
        share = ours.get(part, 0.0)
        reference = other.get(part, 0.0)
        above = 100 * (share / reference - 1) if reference else None
        rows.append((part, share, reference, above, figure.printed.get(part)))
    rows.sort(key=lambda row: (-row[1], row[0]))
    header = (
        "part_of_speech",
        "captions_percent",
        "text_percent",
        "captions_above_text_percent",
        "printed_percent",
    )
    _write_csv(files["parts_of_speech.csv"], header, rows)
    heading = "  |  ".join(filter(None, [f"Parts of speech, tagged by {TAGGER}", models.heading]))
    with _bars(files["parts_of_speech.png"], heading, len(rows)) as axes:
        parts, *shares, _, _ = zip(*rows, strict=True)
        labels = (f"captions of {corpus.dataset}", figure.title)
        for offset, values, label, color in zip(
            (-0.4, 0.0), shares, labels, COLOURS[:2], strict=True
        ):
            places = [place + offset for place in range(len(rows))]
            axes.barh(places, values, height=0.4, align="edge", color=color, label=plain(label))
        for place, (_, share, reference, above, printed) in enumerate(rows):
            notes = [] if above is None else [f"{above:+.0f} %"]
            notes += [] if printed is None else [f"paper {printed:+g} %"]
            end = (max(share, reference), place)
            axes.annotate(
                ", ".join(notes), end, (4, 0), textcoords="offset points", va="center", fontsize=8
            )
        axes.set_yticks(range(len(rows)), parts)
        axes.margins(x=0.3)
        axes.set_xlabel("share of the words, percent")
        axes.legend(frameon=False, fontsize=8, loc="lower right")


def _spread(lists: Callable[[], Iterable[list[str]]]) -> list[list[str]]:
    """Return at most TAGGED of the lists, evenly spread; they are read twice."""
    every = -(-sum(1 for _ in lists()) // TAGGED)
    return list(islice(lists(), 0, None, max(1, every)))


def _words(path: Path) -> Iterator[list[str]]:
    """Yield the words of each sentence of a text.

    WikiText's titles are left out, and its marks between words.
    """
    lines = _lines(path) if path.suffix == ".tokens" else read_texts(path)
    prose = (line for line in lines if not line.lstrip().startswith("= "))
    yield from _sentences(
        line.replace(UNKNOWN, "").replace(" @-@ ", "-").replace(" '", "'") for line in prose
    )


def _sentences(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words of each sentence of texts, capitals kept: they tell names from nouns."""
    for text in texts:
        for sentence in END.split(text):
            words = WORD.findall(sentence)
            if words:
                yield words


def _lines(path: Path) -> Iterator[str]:
    missing = "correct `text` of the figure or the inputs folder"
    with reading(path, missing=missing), path.open(encoding="utf-8") as file:
        yield from file


def _shares(tag_lists: Sequence[Sequence[str]], where: Path) -> dict[str, float]:
    """Return the share of each part of speech, in percent."""
    kinds = count_kinds(tag_lists)
    if not kinds:
        raise DataError(f"{where}: has no words to tag; name another text")
    return {kind: 100 * count / kinds.total() for kind, count in kinds.items()}
