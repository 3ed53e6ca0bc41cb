"""Sample captions of a table's rows with references: random, and with given phrases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL.Image import Image
from PIL.ImageColor import getrgb
from PIL.ImageOps import pad

from recap.core.checksums import record
from recap.core.errors import MetricError
from recap.core.files import write_text
from recap.core.hashing import generator
from recap.core.log import log
from recap.data.corpus import Corpus, pictures_of
from recap.data.files.images import beside, read_photo
from recap.data.tokenizer import tokenize
from recap.plan.run import outside_path, row_runs
from recap.settings import Table
from recap.settings.metrics import score_info
from recap.statistics.scores import read_captions, read_image_scores, read_metrics
from recap.tables import contact_sheet as sheet
from recap.tables.colours import colour_of
from recap.tables.text import EMPTY, plain

_EDGE, _TEXT_WIDTH = 300, 560  # pixels: edge of the box of an image, width of the text beside it
_DARKER = 0.7  # of the color of a line, as text on white


@dataclass(frozen=True)
class RowCaption:
    """A row's label, its caption of one image (first seed),
    and the caption's CIDEr in percent, where it was scored."""

    label: str
    text: str
    cider: float | None = None

    def heading(self) -> str:
        """Return the label with the score."""
        return self.label if self.cider is None else f"{self.label}, CIDEr {self.cider:.0f}"


@dataclass(frozen=True)
class Sample:
    """One image: its file, the captions of all rows,
    its references, and the phrase that it was chosen for, if any."""

    image_id: int
    file: str
    captions: list[RowCaption]
    references: list[str]
    phrase: str | None = None

    def heading(self) -> str:
        """Return which image this is and what it shows."""
        return f"image {self.image_id}" + (
            f", an example of \u201c{self.phrase}\u201d" if self.phrase else ""
        )


@dataclass(frozen=True)
class ScoredCaptions:
    """Captions of one run by image, and their scores on the scale of tables, by metric."""

    label: str
    split: str
    signature: str
    captions: dict[int, str]
    scores: dict[str, dict[int, float]]

    @classmethod
    def read(cls, folder: Path, label: str) -> ScoredCaptions:
        """Read the files of an evaluation."""
        metrics = read_metrics(folder)
        columns = read_image_scores(folder, metrics.split)
        ids = columns.pop("image_id").tolist()
        scores = {}
        for name, values in columns.items():
            if metrics.scores.get(name) is not None:
                scaled = score_info(name).scale * values
                scores[name] = dict(zip(ids, scaled.tolist(), strict=True))
        captions = read_captions(folder, metrics.split)
        return cls(plain(label), metrics.split, metrics.signature, captions, scores)

    def of(self, image: int) -> RowCaption:
        """Return the caption of one image."""
        cider = self.scores.get("CIDEr", {}).get(image)
        return RowCaption(self.label, plain(self.captions[image]), cider)


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
    """Write ``<name>_captions.png`` (images, captions, references) and its text as ``.md``."""
    samples = choose_samples(name, table, seeds, corpus_path, scores_root, count)
    source = pictures_of(corpus_path, image_roots)
    photos = [read_photo(source, sample.file) for sample in samples]
    figure = out / f"{name}_captions.png"
    draw_samples(samples, photos, figure, title=table.title, scale=table.scale)
    write_text(
        figure.with_suffix(".md"), _samples_markdown(samples, table=table, figure=figure.name)
    )
    record(figure, figure.with_suffix(".md"))
    return samples


def draw_samples(
    samples: Sequence[Sample], photos: Sequence[Image], out: Path, *, title: str, scale: str
) -> None:
    """Write the contact sheet: cards in two columns (one where there are at most two samples)."""
    labels = []
    for sample in samples:
        labels += [caption.label for caption in sample.captions]
    colours = colour_of(labels)
    cards = []
    for number, (sample, photo) in enumerate(zip(samples, photos, strict=True), start=1):
        lines: list[sheet.Styled] = [(f"{number}. {sample.heading()}", "plain", sheet.GREY)]
        for caption in sample.captions:
            colour = tuple(round(_DARKER * part) for part in getrgb(colours[caption.label]))
            lines.append((caption.heading(), "bold", colour))
            lines.append((caption.text or EMPTY, "plain", sheet.TEXT_COLOR))
        lines += [(f"· {reference}", "plain", sheet.GREY) for reference in sample.references]
        box = pad(photo, (_EDGE, _EDGE), color=sheet.BACKGROUND, centering=(0, 0))
        cards.append(beside([box, sheet.written(lines, _TEXT_WIDTH)], sheet.MARGIN))
    head = [(title, "bold", sheet.TEXT_COLOR), (scale, "plain", sheet.GREY)]
    sheet.write_sheet(head, cards, out, columns=1 if len(samples) <= 2 else 2)


def choose_samples(
    name: str, table: Table, seeds: Sequence[int], corpus_path: Path, scores_root: Path, count: int
) -> list[Sample]:
    """Take the table's images, draw ``count`` others and one
    for each phrase, and look up the captions of every row."""
    scored: dict[str, ScoredCaptions] = {}
    for row in table.rows:
        folder = row_runs(row, list(seeds))[0].path
        scored[row.id] = ScoredCaptions.read(scores_root / folder, row.label)
    for outside in table.outside:
        folder = outside_path(table, name, outside.id)
        label = f"{outside.label} (from outside)"
        scored[outside.id] = ScoredCaptions.read(scores_root / folder, label)
    split = scored[table.rows[0].id].split
    corpus = Corpus.read(corpus_path)
    references = corpus.captions(split)
    files = corpus.files()
    for row_id, each in scored.items():
        if set(each.captions) != set(references):
            raise MetricError(
                f"the captions of row {row_id!r} are not those of the split {split!r} of "
                f"{corpus_path}"
            )
    if missing := [image for image in table.image_ids if image not in references]:
        raise MetricError(
            f"table {name!r}: image_ids: the split {split!r} of {corpus_path} lacks image "
            f"{missing[0]}"
        )
    chosen = [*table.image_ids, *_with_references(table.image_captions, references, name)]
    chosen += draw_images(name, seeds[0], sorted(references), count)
    images: list[tuple[int, str | None]] = [(image, None) for image in dict.fromkeys(chosen)]
    if table.examples:
        random = generator(seeds[0], "examples", name)
        captions = scored[table.examples.row].captions
        images += _with_phrases(table.examples.phrases, captions, random)
    samples = []
    for image, phrase in images:
        of_rows = [each.of(image) for each in scored.values()]
        texts = list(map(plain, references[image]))
        samples.append(Sample(image, files[image], of_rows, texts, phrase))
    return samples


def draw_images(table: str, seed: int, ids: Sequence[int], count: int) -> list[int]:
    """Draw images whose captions are shown; the table's name and its first seed decide which."""
    draws = generator(seed, "samples", table)
    drawn: list[int] = draws.choice(ids, size=min(count, len(ids)), replace=False).tolist()
    return drawn


def _with_phrases(
    phrases: Sequence[str], captions: Mapping[int, str], random: np.random.Generator
) -> list[tuple[int, str]]:
    """Draw for each phrase an image whose caption has it; none where no caption does."""
    images = []
    for phrase in phrases:
        words = re.compile(rf"\b{re.escape(phrase)}\b")
        saying = sorted(image_id for image_id, text in captions.items() if words.search(text))
        if saying:
            images.append((saying[int(random.integers(len(saying)))], phrase))
    return images


def _with_references(
    captions: Sequence[str], references: Mapping[int, Sequence[str]], table: str
) -> list[int]:
    """Return the images that have one of the captions as a reference, in the captions' order."""
    if not captions:
        return []
    image_of: dict[str, int] = {}
    for image, texts in references.items():
        for text in texts:
            image_of[" ".join(tokenize(text))] = image
    images = []
    for text in dict.fromkeys(captions):
        words = " ".join(tokenize(text))
        if words in image_of:
            images.append(image_of[words])
        else:  # print and data set may spell it differently
            log.warning(
                f"table {table!r}: image_captions: no image of the test split has the reference "
                f"{text!r}"
            )
    return images


def _samples_markdown(samples: Sequence[Sample], *, table: Table, figure: str) -> str:
    """Return samples of a table as Markdown below the contact sheet ``figure``."""
    lines = [f"# {_markdown(table.title)}: captions", ""]
    lines += [f"**{_markdown(table.scale)}**", ""] if table.scale else []
    lines += ["A random sample of test images; captions of the first seed.", ""]
    if table.examples:
        label = next(row.label for row in table.rows if row.id == table.examples.row)
        shown = {sample.phrase for sample in samples}
        missing = [phrase for phrase in table.examples.phrases if phrase not in shown]
        unsaid = f" No caption of it says {', '.join(missing)}." if missing else ""
        said = (
            f"Then one image for each phrase that a caption of {label} says, drawn among "
            f"these.{unsaid}"
        )
        lines += [_markdown(said), ""]
    lines += [f"![contact sheet]({figure})", ""]
    for number, sample in enumerate(samples, start=1):
        lines += [f"## {number}. {_markdown(sample.heading())}: {_markdown(sample.file)}", ""]
        for caption in sample.captions:
            lines.append(
                f"- **{_markdown(caption.heading())}**: {_markdown(caption.text) or EMPTY}"
            )
        lines += [f"- reference: {_markdown(text)}" for text in sample.references]
        lines.append("")
    return "\n".join(lines)


def _markdown(text: str) -> str:
    """Return text with the special characters of Markdown and HTML escaped."""
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", plain(text))
