"""Scores of caption files as one table: intervals, and paired tests against the first row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from recap.core.errors import MetricError, counted
from recap.data.corpus import Corpus
from recap.evaluation.caption_file import score_file
from recap.report.published import ENDING, metrics_of, read_published, references_hash
from recap.settings import OutsideRow
from recap.settings.metrics import METRICS, score_info
from recap.statistics.comparison import LEVEL, compare_rows, correct, percentile_interval
from recap.statistics.scores import FILE, RowScores, not_comparable
from recap.tables.formats import latex_table, markdown_table
from recap.tables.text import NONE, Block, Cell, Line, TextTable, number_text, p_text, plain

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


def score_table(
    files: Sequence[Path],
    *,
    corpus: Path,
    split: str,
    metrics: Sequence[str],
    against: Path | None,
    out: Path,
) -> dict[str, Any]:
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
        if reason := not_comparable(rows[0].signature, rows[-1].signature):
            raise MetricError(
                f"{rows[0].row.label} and {label} cannot be compared: {reason}; score both the "
                "same way"
            )
    described, family = list[dict[str, Any]](), list[dict[str, Any]]()
    for row in rows:
        cells = {name: _cell(name, row, rows[0]) for name in names}
        described.append({"label": row.row.label, "signature": row.signature, "scores": cells})
        family += [cell for cell in cells.values() if "paired" in cell]
    made = correct(family, units=["images"])["paired.p"]
    for cell in family:
        for of_runs in ("welch", "joint", "mark"):  # a file is one run
            del cell[of_runs]
    about = {
        "dataset": table.dataset,
        "split": split,
        "images": len(rows[0].image_ids),
        "comparisons": made,
    }
    return {**about, "notes": NOTES, "rows": described}


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
    metrics, row = metrics_of(header, path), RowScores(_named(label))
    if references_hash(corpus.captions(metrics.split)) != header.references_sha256:
        raise MetricError(
            f"{path}: was scored by other reference captions than those of {corpus.path}; give it "
            "the captions of its data set with --dataset, --inputs or --corpus"
        )
    row.signature, row.image_ids = metrics.signature, [image.id for image in images]
    row.reasons = metrics.not_run
    for name in images[0].scores:
        row.add(name, FILE, header.metrics["scores"][name])
        row.images[name] = [np.array([image.scores[name] for image in images])]
    return row


def _cell(name: str, row: RowScores, first: RowScores) -> dict[str, Any]:
    """Return the numbers of one metric of a row, with its tests against the first row."""
    if name not in row.images:
        return {"reason": row.reasons.get(name, "was not scored")}
    sample = row.sample(name)
    low, high = percentile_interval(sample.images) or (None, None)
    cell = {"score": sample.runs[0], "image_mean": fmean(sample.images), "low": low, "high": high}
    if row is not first and name in first.images:
        better = score_info(name).higher_is_better
        cell |= compare_rows(name, first.sample(name), sample, higher_is_better=better)
    return cell


def table_text(result: Mapping[str, Any], form: str) -> str:
    """Return what `score_table` gave as ``markdown``, ``latex`` or ``json``."""
    if form == "json":
        return json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False)
    rows = result["rows"]
    asked = list(rows[0]["scores"])
    scored = set()
    for row in rows:
        scored |= {name for name in asked if "score" in row["scores"][name]}
    names = [name for name in asked if name in scored] or asked
    title = f"Captions of {result['dataset']}, {result['split']}, {result['images']:,} images"
    table = TextTable(title, "", [(name, name) for name in names])
    table.legend = [f"The {_INTERVAL} is of the image mean, by bootstrap over images."]
    if result["comparisons"]:
        table.legend.append(
            f"p is of the paired t-test over images against the first row, corrected by Holm over "
            f"{counted(result['comparisons'], 'comparison')}."
        )
    reasons = []
    for row in rows:
        table.blocks.append(_block(row, names, has_tests=row is not rows[0]))
        table.signatures.append(f"{row['signature']} ({row['label']})")
        for name, cell in row["scores"].items():
            if cell.get("reason"):
                reasons.append(plain(f"{name}: {cell['reason']}"))
    table.notes = list(dict.fromkeys(reasons))
    if form == "latex":
        return latex_table(table, f"scores_{result['dataset']}")
    return markdown_table(table)


def _block(row: Mapping[str, Any], names: Sequence[str], *, has_tests: bool) -> Block:
    """Return the lines of a row; the first has no tests."""
    columns = [_texts(row["scores"][name], score_info(name)) for name in names]
    block = Block(row["label"], [])
    for kind in _KINDS if has_tests else _KINDS[:3]:
        block.lines.append(Line(kind, [Cell(texts[kind]) for texts in columns]))
    return block


def _texts(cell: Mapping[str, Any], metric: Any) -> dict[str, str]:
    """Return the numbers of one metric of a row as text, by the kind of their line."""

    def number(key: str, digits: int = metric.digits, *, signed: bool = False) -> str:
        value = cell.get(key)
        return number_text(None if value is None else metric.scale * value, digits, signed=signed)

    interval = NONE if cell.get("low") is None else f"{number('low')} to {number('high')}"
    difference = number("difference", metric.digits + 1, signed=True)
    p = cell.get("paired", {}).get("p_holm")
    return dict(
        zip(
            _KINDS,
            (number("score"), number("image_mean"), interval, difference, p_text(p)),
            strict=True,
        )
    )
