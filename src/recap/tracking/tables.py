"""The result tables as records, and descriptions of runs from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recap.core.errors import RecapError
from recap.core.files.atomic import read_json
from recap.core.hashing import value_hash
from recap.tracking.records import LAYOUT, Record, digest

# MLflow truncates a description after 8,000 characters.
_MAX_DESCRIPTION = 7900
_PARTS = ("dataset", "subset", "features")
_FIGURES = ("captions", "attention")


def read_tables(results: Path) -> list[dict[str, Any]]:
    """Return the statistics of all tables of a profile.

    Args:
        results: the folder ``results/<profile>``.

    Raises:
        RecapError: a file is broken, or does not hold statistics of a table.
    """
    return [_read(path) for path in sorted((results / "statistics").glob("[!.]*.json"))]


def describe_settings(tables: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return a description of each setting as Markdown: label of the row, title and scale of each table."""
    descriptions: dict[str, list[str]] = {}
    for table in tables:
        for row in table["rows"]:
            sentence = f"**{row['label']}** in table `{table['table']}`: {table['title']}.\n\n{_scale(table)}"
            descriptions.setdefault(_setting(row), []).append(sentence)
    return {setting: "\n\n".join(dict.fromkeys(sentences)) for setting, sentences in descriptions.items()}


def table_record(*, profile: str, table: Mapping[str, Any], results: Path, reports: Path) -> Record:
    """Return the record of one table: tables, figures and the cards of its data sets as artifacts.

    Args:
        profile: name of the profile; part of the record's key.
        table: its statistics, as :func:`read_tables` returns them.
        results: the folder ``results/<profile>``.
        reports: the folder ``reports/<profile>``.

    Raises:
        RecapError: a file cannot be read.
    """
    name = table["table"]
    baseline = next(row for row in table["rows"] if row["id"] == table["baseline"])
    artifacts = _reports(reports, name) | _cards(results, table)
    ended = int((results / "statistics" / f"{name}.json").stat().st_mtime * 1000)
    record = Record(
        key=f"{profile}/tables/{name}",
        name=f"table {name}",
        experiment=baseline["dataset"],
        tags={"recap_profile": profile, "level": "table", "table": name, "seed": _listed(table["seeds"])},
        started=ended,
        ended=ended,
        description=_description(table, artifacts.get(f"tables/{name}.md")),
        artifacts=artifacts,
    )
    digests = [[name, digest(file)] for name, file in artifacts.items()]
    record.hash = value_hash([LAYOUT, record.name, record.description, record.tags, digests])
    return record


def _read(path: Path) -> dict[str, Any]:
    table = read_json(path)
    expected = {"table", "title", "scale", "baseline", "seeds", "rows"}
    if not isinstance(table, dict) or expected - set(table):
        raise RecapError(f"{path}: not the statistics of a table; delete it and make it again with `recap statistics`")
    return table


def _setting(row: Mapping[str, Any]) -> str:
    """Return the folder of a row's setting."""
    return "/".join([*(str(row[part]) for part in _PARTS), f"{row['model']}@{row['recipe']}"])


def _scale(table: Mapping[str, Any]) -> str:
    return f"Scale of this run: {table['scale']}"


def _description(table: Mapping[str, Any], markdown: Path | None) -> str:
    """Return the table itself if it exists and is short enough, else its title and scale."""
    text = markdown.read_text(encoding="utf-8") if markdown else ""
    return text if 0 < len(text) <= _MAX_DESCRIPTION else f"**{table['title']}**\n\n{_scale(table)}"


def _reports(reports: Path, name: str) -> dict[str, Path]:
    """Return the files of a table and its figures, and the learning curves of all runs."""
    stems = {name, "curves", *(f"{name}_{kind}" for kind in _FIGURES)}
    found = sorted(file for file in reports.glob("*/*") if file.stem in stems and file.is_file())
    return {file.relative_to(reports).as_posix(): file for file in found}


def _cards(results: Path, table: Mapping[str, Any]) -> dict[str, Path]:
    """Return the cards of a table's data sets."""
    names = sorted({row["dataset"] for row in table["rows"]})
    cards = {f"data/{name}.md": results / "data" / name / "card.md" for name in names}
    return {name: card for name, card in cards.items() if card.exists()}


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(str(seed) for seed in seeds)
