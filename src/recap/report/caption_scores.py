"""Scores of caption files as one table: intervals, and paired tests against the first row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from recap.core.documents import adapter
from recap.core.errors import MetricError, counted
from recap.data.corpus import Corpus
from recap.evaluation.caption_file import score_file
from recap.report.published import ENDING, metrics_of, read_published, references_hash
from recap.settings import OutsideRow
from recap.settings.metrics import METRICS, score_info
from recap.statistics.comparison import LEVEL, compare_rows, correct, percentile_interval
from recap.statistics.results import Comparison, OmittedIfEmpty, Paired
from recap.statistics.scores import FILE, RowScores, check_comparable
from recap.tables.formats import latex_table, markdown_table
from recap.tables.text import (
    NONE,
    Block,
    TextTable,
    columns_of,
    interval_text,
    number_text,
    p_text,
    plain,
    text_line,
)

_INTERVAL = f"{100 * LEVEL:.0f} % interval"
_KINDS = ("score", "image mean", _INTERVAL, "minus first", "p, images (Holm)")
NOTES = [
    "scores, means, intervals and differences are fractions of 1",
    f"low and high are the ends of the bootstrap {_INTERVAL} of image_mean, over images",
    "difference is of the scores of the corpus; BLEU and METEOR of a corpus are not means over "
    "images",
    "paired.p is of the t-test over images against the first row, and p_holm is Holm's over all "
    "rows and metrics",
    "in the tests, a BLEU below 0.001 counts as 0, because pycocoevalcap writes such values in "
    "place of 0",
]


@dataclass(frozen=True)
class NotScored:
    """Why a row has no score."""

    reason: str


@dataclass(frozen=True)
class Scored:
    """One metric of a row: of the corpus, and the mean over its images with an interval."""

    score: float
    image_mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Compared(Scored):
    """One metric of a row that is compared with the first row."""

    difference: float
    paired: Paired
    reason: None = None
    lower_is_better: OmittedIfEmpty[bool] = False


@dataclass(frozen=True)
class ScoredRow:
    """One row: a file of captions, or the run that the others are compared with."""

    label: str
    signature: str
    scores: dict[str, Compared | Scored | NotScored]  #: by metric


@dataclass(frozen=True)
class ScoreTable:
    """The scores of files of captions."""

    dataset: str
    split: str
    images: int
    comparisons: int  #: that have a p
    notes: list[str]
    rows: list[ScoredRow]


def score_table(
    files: Sequence[Path],
    *,
    corpus: Path,
    split: str,
    metrics: Sequence[str],
    against: Path | None,
    out: Path,
) -> ScoreTable:
    """Score files of captions, and return all numbers of their rows, each compared with the first.

    The first row is that of ``against`` where it is given: a published run, or the folder of a run.
    What is written of each of several files goes into a folder of its name in ``out``.

    Raises:
        MetricError: two rows were scored on other images, by other references or with another
        tokenizer.
    """
    names = list(chain.from_iterable(METRICS.get(metric).names for metric in metrics))
    table = Corpus.read(corpus)
    rows = [_first_row(against, names, table)] if against else []
    unique = len({file.stem for file in files}) == len(files)
    for file in files:
        label = file.stem if unique else file.as_posix()
        folder = out if len(files) == 1 else out / label.replace("/", "_")
        score_file(captions=file, corpus=corpus, split=split, metrics=metrics, out=folder)
        rows.append(_row(label, names, folder))
        check_comparable(
            rows[0].row.label,
            rows[0].signature,
            label,
            rows[-1].signature,
            same_images=rows[-1].image_ids == rows[0].image_ids,
        )
    comparisons = _comparisons(rows, names)
    described = []
    for at, row in enumerate(rows):
        cells = {name: _cell(name, row, comparisons.get((at, name))) for name in names}
        described.append(ScoredRow(row.row.label, row.signature, cells))
    made = sum(each.paired.p is not None for each in comparisons.values())
    return ScoreTable(table.dataset, split, len(rows[0].image_ids), made, NOTES, described)


def _comparisons(
    rows: Sequence[RowScores], names: Sequence[str]
) -> dict[tuple[int, str], Comparison]:
    """Return place of a row, metric -> its tests against the first row, corrected over all."""
    first = rows[0]
    made = {}
    for at, row in enumerate(rows[1:], start=1):
        for name in names:
            if name in row.images and name in first.images:
                made[at, name] = compare_rows(name, first.sample(name), row.sample(name))
    return dict(zip(made, correct(list(made.values()), units=["images"]), strict=True))


def _row(label: str, names: Sequence[str], folder: Path) -> RowScores:
    """Return the scores in the folder of an evaluation."""
    row = RowScores(_named(label))
    row.add_metrics(names, FILE, folder)
    return row


def _named(label: str) -> OutsideRow:
    return OutsideRow(id=FILE, label=plain(label), captions=FILE)


def _first_row(path: Path, names: Sequence[str], corpus: Corpus) -> RowScores:
    """Return the scores of a published file, or of a run's folder below ``runs`` or ``scores``."""
    label = Path(*path.parts[-3:]).as_posix().removesuffix(ENDING)  # model@recipe/seed/stage
    if not path.is_file():
        scores = Path(*("scores" if part == "runs" else part for part in path.parts))
        return _row(label, names, path if (path / "metrics.json").is_file() else scores)
    header, images = read_published(path)
    metrics = metrics_of(header, path)
    row = RowScores(_named(label))
    if references_hash(corpus.captions(metrics.split)) != header.references_sha256:
        raise MetricError(
            f"{path}: was scored by other reference captions than those of {corpus.path}; give it "
            "the captions of its data set with --dataset, --inputs or --corpus"
        )
    row.signature = metrics.signature
    row.image_ids = [image.id for image in images]
    row.reasons = metrics.not_run
    for name in images[0].scores:
        row.add(name, FILE, header.metrics["scores"][name])
        row.images[name] = [np.array([image.scores[name] for image in images])]
    return row


def _cell(name: str, row: RowScores, tests: Comparison | None) -> Compared | Scored | NotScored:
    """Return the numbers of one metric of a row."""
    if name not in row.images:
        return NotScored(row.reasons.get(name, "was not scored"))
    sample = row.sample(name)
    low, high = percentile_interval(sample.images) or (None, None)
    score = sample.runs[0]
    mean = fmean(sample.images)
    if tests is None:
        return Scored(score, mean, low, high)
    lower = tests.lower_is_better
    return Compared(score, mean, low, high, tests.difference, tests.paired, lower_is_better=lower)


def table_text(result: ScoreTable, form: str) -> str:
    """Return what `score_table` gave as ``markdown``, ``latex`` or ``json``."""
    if form == "json":
        values = adapter(ScoreTable).dump_python(result, mode="json")
        return json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False)
    rows = result.rows
    asked = list(rows[0].scores)
    scored = set()
    reasons = []
    for row in rows:
        for name, cell in row.scores.items():
            if isinstance(cell, NotScored):
                reasons.append(plain(f"{name}: {cell.reason}"))
            else:
                scored.add(name)
    names = [name for name in asked if name in scored] or asked
    title = f"Captions of {result.dataset}, {result.split}, {result.images:,} images"
    table = TextTable(title, "", columns_of(names))
    table.legend = [f"The {_INTERVAL} is of the image mean, by bootstrap over images."]
    if result.comparisons:
        table.legend.append(
            f"p is of the paired t-test over images against the first row, corrected by Holm over "
            f"{counted(result.comparisons, 'comparison')}."
        )
    for row in rows:
        table.blocks.append(_block(row, names, has_tests=row is not rows[0]))
        table.signatures.append(f"{row.signature} ({row.label})")
    table.notes = list(dict.fromkeys(reasons))
    if form == "latex":
        return latex_table(table, f"scores_{result.dataset}")
    return markdown_table(table)


def _block(row: ScoredRow, names: Sequence[str], *, has_tests: bool) -> Block:
    """Return the lines of a row; the first has no tests."""
    columns = [_texts(row.scores[name], score_info(name)) for name in names]
    block = Block(row.label, [])
    for at, kind in enumerate(_KINDS if has_tests else _KINDS[:3]):
        block.lines.append(text_line(kind, [texts[at] for texts in columns]))
    return block


def _texts(cell: Compared | Scored | NotScored, metric: Any) -> list[str]:
    """Return the numbers of one metric of a row as text, in the order of `_KINDS`."""
    texts = [NONE] * len(_KINDS)
    if isinstance(cell, Scored):
        digits = metric.digits
        texts[0] = number_text(metric.scale * cell.score, digits)
        texts[1] = number_text(metric.scale * cell.image_mean, digits)
        texts[2] = interval_text(cell.low, cell.high, digits, scale=metric.scale)
        if isinstance(cell, Compared):
            texts[3] = number_text(metric.scale * cell.difference, digits + 1, signed=True)
            texts[4] = p_text(cell.paired.p_holm)
    return texts
