"""Sample captions of a table's rows beside the references: a random sample, and some with given phrases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recap.core.errors import MetricError
from recap.core.hashing import generator
from recap.core.log import log
from recap.data.corpus import Corpus
from recap.data.tokenizer import tokenize
from recap.plan.run import outside_path, row_runs
from recap.reporting.text import plain
from recap.settings import Table
from recap.statistics.scores import read_captions, read_image_scores, read_metrics


@dataclass(frozen=True)
class RowCaption:
    """A row's label, its caption of one image (first seed), and the caption's CIDEr in percent, where it was scored."""

    label: str
    text: str
    cider: float | None = None

    def heading(self) -> str:
        """Return the label with the score."""
        return self.label if self.cider is None else f"{self.label}, CIDEr {self.cider:.0f}"


@dataclass(frozen=True)
class Sample:
    """One image: its file, the captions of all rows, its references, and the phrase that it was chosen for, if any."""

    image_id: int
    file: str
    captions: list[RowCaption]
    references: list[str]
    phrase: str | None = None

    def heading(self) -> str:
        """Return which image this is and what it shows."""
        return f"image {self.image_id}" + (f", an example of \u201c{self.phrase}\u201d" if self.phrase else "")


@dataclass(frozen=True)
class _Scored:
    """Captions and CIDEr of one run, by image id; the scores are empty where CIDEr was not asked for."""

    split: str
    captions: dict[int, str]
    cider: dict[int, float]

    def of(self, image_id: int, label: str) -> RowCaption:
        return RowCaption(plain(label), plain(self.captions[image_id]), self.cider.get(image_id))


def choose_samples(
    *, name: str, table: Table, seeds: Sequence[int], corpus_path: Path, scores_root: Path, count: int
) -> list[Sample]:
    """Take the table's images, draw others at random, the same on every run, and look up the captions of every row.

    Args:
        name: id of the table; with the first seed it decides the draw.
        table: the table; for each of its example phrases that a caption says, an image is drawn among these.
        seeds: the first seed's captions are shown.
        corpus_path: the corpus with the references.
        scores_root: folder above ``<dataset>/<subset>/...`` with the captions and scores of each run.
        count: number of images without a phrase; fewer where the split is smaller.
    """
    found = {row.id: _scored(scores_root / row_runs(row, list(seeds))[0].path) for row in table.rows}
    found |= {row.id: _scored(scores_root / outside_path(table, name, row.id)) for row in table.outside}
    shown = [(row.id, row.label) for row in table.rows]
    shown += [(row.id, f"{row.label} (from outside)") for row in table.outside]
    split = next(iter(found.values())).split
    corpus = Corpus.read(corpus_path)
    references, files = corpus.captions(split), corpus.files()
    for row_id, scored in found.items():
        if set(scored.captions) != set(references):
            raise MetricError(f"the captions of row {row_id!r} are not those of the split {split!r} of {corpus_path}")
    ids = sorted(references)
    drawn = generator(seeds[0], "samples", name).choice(len(ids), size=min(count, len(ids)), replace=False)
    for image_id in table.image_ids:
        if image_id not in references:
            raise MetricError(f"table {name!r}: image_ids: the split {split!r} of {corpus_path} lacks image {image_id}")
    named = [*table.image_ids, *_with_references(table.image_captions, references, name)]
    wanted = dict.fromkeys([*named, *(ids[index] for index in drawn.tolist())])
    chosen: list[tuple[int, str | None]] = [(image_id, None) for image_id in wanted]
    if table.examples:
        captions = found[table.examples.row].captions
        chosen += _with_phrases(captions, table.examples.phrases, generator(seeds[0], "examples", name))
    return [
        Sample(
            image_id=image_id,
            file=files[image_id],
            captions=[found[row_id].of(image_id, label) for row_id, label in shown],
            references=[plain(caption) for caption in references[image_id]],
            phrase=phrase,
        )
        for image_id, phrase in chosen
    ]


def _scored(folder: Path) -> _Scored:
    """Read captions and scores of one run."""
    split = read_metrics(folder).split
    scores = read_image_scores(folder, split)
    cider: dict[int, float] = {}
    if "CIDEr" in scores:
        cider = dict(zip(scores["image_id"].tolist(), (100 * scores["CIDEr"]).tolist(), strict=True))
    return _Scored(split, read_captions(folder, split), cider)


def _with_references(captions: Sequence[str], references: Mapping[int, Sequence[str]], table: str) -> list[int]:
    """Return the images that have one of the captions as a reference, in the order of the captions.

    A caption that no image has is one line in the log: print and data set may spell it differently.
    """
    if not captions:
        return []
    image_of = {" ".join(tokenize(text)): image for image, texts in references.items() for text in texts}
    found = {text: image_of.get(" ".join(tokenize(text))) for text in captions}
    for text, image in found.items():
        if image is None:
            log.warning(f"table {table!r}: image_captions: no image of the test split has the reference {text!r}")
    return [image for image in found.values() if image is not None]


def _with_phrases(
    captions: Mapping[int, str], phrases: Sequence[str], random: np.random.Generator
) -> list[tuple[int, str | None]]:
    """Return an image for each phrase that some caption says, drawn among these."""
    found: list[tuple[int, str | None]] = []
    for phrase in phrases:
        words = re.compile(rf"\b{re.escape(phrase)}\b")
        saying = sorted(image_id for image_id, text in captions.items() if words.search(text))
        if saying:
            found.append((saying[int(random.integers(len(saying)))], phrase))
    return found


def samples_markdown(samples: Sequence[Sample], *, table: Table, figure: str) -> str:
    """Return samples of a table as Markdown below the contact sheet ``figure``."""
    lines = [f"# {_markdown(table.title)}: captions", ""]
    lines += [f"**{_markdown(table.scale)}**", ""] if table.scale else []
    lines += ["A random sample of test images; captions of the first seed.", ""]
    if table.examples:
        lines += [_markdown(_examples_said(table, samples)), ""]
    lines += [f"![contact sheet]({figure})", ""]
    for number, sample in enumerate(samples, start=1):
        lines += [f"## {number}. {_markdown(sample.heading())}: {_markdown(sample.file)}", ""]
        lines += [
            f"- **{_markdown(caption.heading())}**: {_markdown(caption.text) or '(empty caption)'}"
            for caption in sample.captions
        ]
        lines += [f"- reference: {_markdown(text)}" for text in sample.references]
        lines.append("")
    return "\n".join(lines)


def _examples_said(table: Table, samples: Sequence[Sample]) -> str:
    """Return what the examples were chosen by, and which phrases no caption says."""
    assert table.examples is not None
    label = next(row.label for row in table.rows if row.id == table.examples.row)
    missing = [phrase for phrase in table.examples.phrases if phrase not in {sample.phrase for sample in samples}]
    unsaid = f" No caption of it says {', '.join(missing)}." if missing else ""
    return f"Then one image for each phrase that a caption of {label} says, drawn among these.{unsaid}"


def _markdown(text: str) -> str:
    """Return text with the special characters of Markdown and HTML escaped."""
    text = plain(text)
    for char in "\\`*_[]<>#|":
        text = text.replace(char, f"\\{char}")
    return text
