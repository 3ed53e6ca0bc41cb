"""Writes one result table: in full as LaTeX, CSV, HTML and Markdown, and one line a row for a paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from recap.core.errors import counted
from recap.core.files import cell, csv_text, write_text
from recap.core.log import log
from recap.reporting.content import OUTSIDE, Content, run_rows, table_content
from recap.reporting.html import html_table
from recap.reporting.latex import latex_table
from recap.reporting.markdown import markdown_table
from recap.reporting.notes import difference_to_quoted, from_outside, seeds_for_printed
from recap.reporting.paper import paper_table
from recap.reporting.paper_formats import paper_csv, paper_latex, paper_markdown
from recap.settings import Table
from recap.settings.tables import WHOLE_ROW

_PAIRED = ("mean_difference", "low", "high", "t", "p", "p_holm", "d_z", "p_wilcoxon", "p_wilcoxon_holm")
_WELCH = ("t", "degrees", "p", "p_holm")  # and of the joint test
_OF_A_ROW = ("id", "label", "dataset", "subset", "features", "model", "recipe", "stage")
_NOTES = ("printed_p", "doubt")  # columns of tables that have any
_PRINTED = ("printed_percent", "printed_sd_percent", "difference_to_printed_percent")


def write_table(*, name: str, table: Table, statistics: Mapping[str, Any], out: Path) -> list[Path]:
    """Write ``<name>.{tex,csv,html,md}`` and ``<name>.paper.{tex,csv,md}``; equal statistics give equal bytes.

    Args:
        name: id of the table.
        table: its rows and columns.
        statistics: what :func:`recap.statistics.compare.compare_table` made.
        out: folder.

    Returns:
        The seven paths.
    """
    paper = paper_table(table, statistics)
    paths = write_formats(
        out / name,
        table_content(table, statistics),
        csv_table(statistics),
        name=name,
        more={
            "paper.tex": paper_latex(paper, name),
            "paper.csv": paper_csv(paper),
            "paper.md": paper_markdown(paper),
        },
    )
    shape = f"{counted(len(table.rows), 'row')}, {counted(len(table.columns), 'column')}"
    log.info(f"table {name}: {shape} -> {out / name}.md")
    return paths


def write_formats(
    begin: Path, content: Content, csv: str, *, name: str, more: Mapping[str, str] | None = None
) -> list[Path]:
    """Write a table as ``<begin>.tex``, ``.csv``, ``.html`` and ``.md``, and return the paths.

    Args:
        begin: of the paths.
        content: of the table.
        csv: all its numbers.
        name: of the table, in its LaTeX.
        more: further texts by their ending.
    """
    texts = {
        "tex": latex_table(content, name),
        "csv": csv,
        "html": html_table(content),
        "md": markdown_table(content),
        **(more or {}),
    }
    paths = [begin.with_name(f"{begin.name}.{ending}") for ending in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(path, text)
    return paths


def csv_table(statistics: Mapping[str, Any]) -> str:
    """Return one line per row and metric with all numbers; scores are fractions, printed values percent.

    Column ``scale`` is ``paper`` where a row has the data set and the settings of the printed numbers, else ``other``;
    Markdown and JSON describe the scale in full.
    """
    kinds = ("quoted", "not_run", "rows", "outside")
    rows = [row for kind in kinds for row in statistics.get(kind, [])]
    notes = [key for key in _NOTES if any(row[key] for row in rows)]
    records = list(_records(statistics, notes))
    lines = [*_printed(statistics, notes, "quoted"), *_printed(statistics, notes, "not_run"), *records]
    names = [*records[0], *(_difference_of(row) for row in _like_quoted(statistics))]
    return csv_text([names, *([cell(line.get(key)) for key in names] for line in lines)])


def _records(statistics: Mapping[str, Any], notes: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the lines of the CSV."""
    rows = run_rows(statistics)
    seeds = any(seeds_for_printed(cell) for row in rows for cell in row["cells"].values())
    for row in rows:
        for metric, values in row["cells"].items():
            comparison = values["comparison"] or {}
            paired, welch, joint = (comparison.get(test) or {} for test in ("paired", "welch", "joint"))
            outside = f"{from_outside(row)}: {row[OUTSIDE]}" if OUTSIDE in row else None
            reasons = [outside, values["reason"], *(test.get("reason") for test in (comparison, paired, welch, joint))]
            yield {
                "table": statistics["table"],
                "scale": "paper" if row["as_printed"] else "other",
                **{key: row[key] for key in _OF_A_ROW},
                "metric": metric,
                **{key: values[key] for key in ("mean", "sd", "n")},
                "seeds": " ".join(values["values"]),
                "values": " ".join(map(repr, values["values"].values())),
                "source": values["source"],
                **{key: values[key] for key in _PRINTED},
                "baseline": statistics["baseline"],
                "difference": comparison.get("difference"),
                "images": statistics["images"],
                **{f"paired_{key}": paired.get(key) for key in _PAIRED},
                **{f"welch_{key}": welch.get(key) for key in _WELCH},
                **{f"joint_{key}": joint.get(key) for key in _WELCH},
                "mark": comparison.get("mark"),
                **({"seeds_for_printed": seeds_for_printed(values)} if seeds else {}),
                "reason": "; ".join(dict.fromkeys(filter(None, reasons))),
                "signature": " ; ".join(sorted(set(row["signatures"].values()))),
                **{key: _note(row[key], metric) for key in notes},
            }


def _printed(statistics: Mapping[str, Any], notes: Sequence[str], rows: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of rows that the paper quotes, or of its own that were not run: only a printed value.

    A quoted value comes with the differences of our rows with its data and settings to it.
    """
    compared = _like_quoted(statistics) if rows == "quoted" else []
    for row in statistics[rows]:
        for metric, value in row["printed"].items():
            yield {
                "table": statistics["table"],
                **{key: row[key] for key in ("id", "label")},
                "metric": metric,
                "printed_percent": value,
                **{_difference_of(ours): difference_to_quoted(ours, row, metric) for ours in compared},
                "reason": f"own, not run: {row['reason']}" if "reason" in row else "printed in the paper, not run",
                **{key: _note(row[key], metric) for key in notes},
            }


def _like_quoted(statistics: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return our rows with the data and settings of the quoted ones, if there are any."""
    return [row for row in statistics["rows"] if row["as_printed"]] if statistics["quoted"] else []


def _difference_of(row: Mapping[str, Any]) -> str:
    return f"difference_of_{row['id']}"


def _note(notes: Mapping[str, Any], metric: str) -> Any:
    """Return the printed p of a metric, or why it is doubtful; a doubt about the row counts for each of its numbers."""
    return notes.get(metric, notes.get(WHOLE_ROW))
