"""The result tables as records, and descriptions of runs from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from recap.core.hashing import value_hash
from recap.plan.labels import row_setting
from recap.settings.figures import FIGURES, ModelFigure
from recap.tracking.records import LAYOUT, Record, digest, percent

# MLflow truncates a description after 8,000 characters.
_MAX_DESCRIPTION = 7900
_MAX_NAME = 150  # of MLflow's 250, which the name of a metric and the id of a row share


def describe_settings(tables: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return a description of each setting as Markdown: label of the row, title and scale of each table."""
    descriptions: dict[str, list[str]] = {}
    for table in tables:
        for row in table["rows"]:
            sentence = f"**{row['label']}** in table `{table['table']}`: {table['title']}.\n\n{table['scale']}"
            descriptions.setdefault(row_setting(row), []).append(sentence)
    return {setting: "\n\n".join(dict.fromkeys(sentences)) for setting, sentences in descriptions.items()}


def table_record(*, profile: str, table: Mapping[str, Any], results: Path, reports: Path) -> Record:
    """Return the record of one table: tables, figures and the cards of its data sets as artifacts."""
    name = table["table"]
    baseline = next(row for row in table["rows"] if row["id"] == table["baseline"])
    artifacts = _reports(reports, name) | _cards(results, table)
    markdown = artifacts.get(f"tables/{name}.md")
    text = markdown.read_text(encoding="utf-8") if markdown else ""
    seeds = ", ".join(map(str, table["seeds"]))
    rows = zip(_row_names(table["rows"]), table["rows"], strict=True)
    ended = int((results / "statistics" / f"{name}.json").stat().st_mtime * 1000)
    record = Record(
        key=f"{profile}/tables/{name}",
        name=f"table {name}",
        experiment=baseline["dataset"],
        tags={"recap_profile": profile, "level": "table", "table": name, "seed": seeds},
        started=ended,
        ended=ended,
        description=text if 0 < len(text) <= _MAX_DESCRIPTION else f"**{table['title']}**\n\n{table['scale']}",
        params={"baseline": baseline["label"], "seeds": seeds}
        | {f"setting: {name}": row_setting(row) for name, row in rows},
        numbers=_means(table),
        artifacts=artifacts,
    )
    digests = [[name, digest(file)] for name, file in artifacts.items()]
    record.hash = value_hash([LAYOUT, record.name, record.description, record.tags, record.numbers, digests])
    return record


def _means(table: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean of every cell, as the table shows it: ``mean CIDEr: Transformer`` -> 505.9.

    MLflow sorts its charts by name; those of the runs' scores come first.
    """
    names = _row_names(table["rows"])
    return {
        f"mean {metric}: {name}": percent(metric, row["cells"][metric]["mean"], f"table {table['table']}")
        for metric in table["columns"]
        for name, row in zip(names, table["rows"], strict=True)
        if row["cells"].get(metric, {}).get("mean") is not None
    }


def _row_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the labels of rows as parts of names that MLflow allows, with the ids unless they are then distinct."""
    names = [" ".join(re.sub(r"[^\w.:-]+", " ", row["label"]).split())[:_MAX_NAME] for row in rows]
    distinct = all(names) and len(set(names)) == len(names)
    return names if distinct else [f"{name} {row['id']}".strip() for name, row in zip(names, rows, strict=True)]


def _reports(reports: Path, name: str) -> dict[str, Path]:
    """Return the files of a table and its figures, and the learning curves of all runs."""
    drawn = {Path(ending).stem for kind in FIGURES.classes().values() for ending in cast(type[ModelFigure], kind).files}
    stems = {name, f"{name}.paper", "curves", *(f"{name}_{figure}" for figure in ("captions", *drawn))}
    found = sorted(file for file in reports.glob("*/*") if file.stem in stems and file.is_file())
    return {file.relative_to(reports).as_posix(): file for file in found}


def _cards(results: Path, table: Mapping[str, Any]) -> dict[str, Path]:
    """Return the cards of a table's data sets."""
    names = sorted({row["dataset"] for row in table["rows"]})
    cards = {f"data/{name}.md": results / "data" / name / "card.md" for name in names}
    return {name: card for name, card in cards.items() if card.exists()}
