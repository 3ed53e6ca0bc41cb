"""Sample captions of a table's rows beside the references."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recap.core.config import Table
from recap.core.errors import MetricError
from recap.core.run import row_runs
from recap.core.seeding import generator
from recap.data.corpus.corpus import Corpus
from recap.reporting.content import plain
from recap.statistics.scores import read_captions, read_metrics, split_of


@dataclass(frozen=True)
class Sample:
    """One image: its file, label and caption of each row (first seed), and its references."""

    image_id: int
    file: str
    captions: list[tuple[str, str]]
    references: list[str]


def choose_samples(
    *, name: str, table: Table, seeds: Sequence[int], corpus_path: Path, scores_root: Path, count: int
) -> list[Sample]:
    """Draw images at random, the same ones on every run, and look up the captions of every row.

    Args:
        name: id of the table; with the first seed it decides the draw.
        table: the table.
        seeds: the first seed's captions are shown.
        corpus_path: the corpus with the references.
        scores_root: folder above ``<dataset>/<subset>/...`` with ``captions.<split>.json``.
        count: number of images; fewer where the split is smaller.

    Raises:
        MetricError: the captions of a row are of other images than the corpus.
    """
    rows = {row.id: row_runs(row, list(seeds))[0].path for row in table.rows}
    found = {row_id: _captions(scores_root / path) for row_id, path in rows.items()}
    split = next(split for split, _ in found.values())
    corpus = Corpus.read(corpus_path)
    references, files = corpus.captions(split), corpus.files()
    for row_id, (_, captions) in found.items():
        if set(captions) != set(references):
            raise MetricError(f"the captions of row {row_id!r} are not those of the split {split!r} of {corpus_path}")
    ids = sorted(references)
    drawn = generator(seeds[0], "samples", name).choice(len(ids), size=min(count, len(ids)), replace=False)
    return [
        Sample(
            image_id=ids[index],
            file=files[ids[index]],
            captions=[(plain(row.label), plain(found[row.id][1][ids[index]])) for row in table.rows],
            references=[plain(caption) for caption in references[ids[index]]],
        )
        for index in drawn.tolist()
    ]


def samples_text(samples: Sequence[Sample], *, width: int = 100) -> str:
    """Return samples as text for a terminal, ``width`` characters wide."""
    blocks = []
    for number, sample in enumerate(samples, start=1):
        label_width = max(len(label) for label, _ in (*sample.captions, ("reference", "")))
        entries = [*sample.captions, *(("reference", text) for text in sample.references)]
        lines = [f"{number}. image {sample.image_id} ({plain(sample.file)})"]
        lines += [_wrapped(label.rjust(label_width), text or "(empty caption)", width) for label, text in entries]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def samples_markdown(samples: Sequence[Sample], *, title: str, scale: str, figure: str) -> str:
    """Return samples as Markdown below the contact sheet ``figure``."""
    lines = [f"# {_markdown(title)}: captions", "", f"**Scale of this run: {_markdown(scale)}**", ""]
    lines += ["Test images drawn at random; captions of the first seed.", "", f"![contact sheet]({figure})", ""]
    for number, sample in enumerate(samples, start=1):
        lines += [f"## {number}. image {sample.image_id}: {_markdown(sample.file)}", ""]
        lines += [
            f"- **{_markdown(label)}**: {_markdown(text) or '(empty caption)'}" for label, text in sample.captions
        ]
        lines += [f"- reference: {_markdown(text)}" for text in sample.references]
        lines.append("")
    return "\n".join(lines)


def _captions(folder: Path) -> tuple[str, dict[int, str]]:
    """Return the split and the captions of one run: image id -> caption."""
    split = split_of(read_metrics(folder)["signature"])
    return split, read_captions(folder, split)


def _wrapped(label: str, text: str, width: int) -> str:
    """Return ``label: text`` with the text wrapped beside the label."""
    first = f"   {label}: "
    return textwrap.fill(text, width=width, initial_indent=first, subsequent_indent=" " * len(first))


def _markdown(text: str) -> str:
    """Return text with the special characters of Markdown and HTML escaped."""
    text = plain(text)
    for char in "\\`*_[]<>#|":
        text = text.replace(char, f"\\{char}")
    return text
