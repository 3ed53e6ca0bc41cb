"""Writes one result table as LaTeX, CSV, Markdown and HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from recap.core.config import Table
from recap.core.files.atomic import write_text
from recap.core.files.spreadsheet import no_formula
from recap.core.log import log
from recap.reporting.content import Content, Entry, table_content
from recap.reporting.html import html_table
from recap.reporting.latex import latex_table

_PAIRED = ("mean_difference", "low", "high", "t", "p", "p_holm", "d_z", "p_wilcoxon", "p_wilcoxon_holm")
_WELCH = ("t", "degrees", "p", "p_holm")
_JOINT = _WELCH
_PRINTED = ("printed_percent", "printed_sd_percent", "difference_to_printed_percent")


def write_table(*, name: str, table: Table, statistics: Mapping[str, Any], out: Path) -> list[Path]:
    """Write ``<name>.tex``, ``.csv``, ``.html`` and ``.md``; equal statistics give equal bytes.

    Args:
        name: id of the table.
        table: its rows and columns.
        statistics: what :func:`recap.statistics.compare.compare_table` made.
        out: folder.

    Returns:
        The four paths.

    Raises:
        RecapError: the statistics were made for another version of the table.
    """
    content = table_content(table, statistics)
    texts = {
        "tex": latex_table(content, name),
        "csv": csv_table(statistics),
        "html": html_table(content),
        "md": markdown_table(content),
    }
    paths = [out / f"{name}.{ending}" for ending in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(path, text)
    log.info(f"table {name}: {len(table.rows)} rows, {len(table.columns)} columns -> {paths[-1]}")
    return paths


def markdown_table(content: Content) -> str:
    """Return the table as Markdown with aligned columns."""
    rows: list[list[str]] = [["", *content.columns]]
    for block in content.blocks:
        rows.append([f"**{_cell_text(block.label)}**", *[""] * len(content.columns)])
        rows.extend([f"  {line.kind}", *(_entry(entry) for entry in line.entries)] for line in block.lines)
    widths = [max(3, *(len(row[index]) for row in rows)) for index in range(len(rows[0]))]
    rule = "|".join(["", "-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:]), ""])
    lines = [_padded(rows[0], widths), rule, *(_padded(row, widths) for row in rows[1:])]
    notes = [f"[{mark}] {text}" for mark, text in content.footnotes.items()] + content.notes
    notes += [f"Signature: `{text}`" for text in content.signatures]
    head = [f"# {_cell_text(content.title)}", "", f"**Scale of this run: {_cell_text(content.scale)}**", ""]
    return "\n".join([*head, *lines, "", *(f"- {note}" for note in notes)]) + "\n"


def csv_table(statistics: Mapping[str, Any]) -> str:
    """Return one line per row and metric with all numbers; scores are fractions, printed values percent.

    Column ``scale`` is ``paper`` or ``other``; Markdown and JSON describe the scale in full.
    """
    records = list(_records(statistics))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _csv_value(value) for key, value in record.items()} for record in _quoted(statistics))
    writer.writerows({key: _csv_value(value) for key, value in record.items()} for record in records)
    return buffer.getvalue()


def _records(statistics: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the lines of the CSV."""
    for row in statistics["rows"]:
        for metric, cell in row["cells"].items():
            comparison = cell["comparison"] or {}
            paired, welch, joint = (comparison.get(test) or {} for test in ("paired", "welch", "joint"))
            yield {
                "table": statistics["table"],
                "scale": "paper" if statistics["paper_scale"] else "other",
                **{
                    key: row[key]
                    for key in ("id", "label", "dataset", "subset", "features", "model", "recipe", "stage")
                },
                "metric": metric,
                **{key: cell[key] for key in ("mean", "sd", "n")},
                "seeds": " ".join(cell["values"]),
                "values": " ".join(repr(value) for value in cell["values"].values()),
                **{key: cell[key] for key in _PRINTED},
                "baseline": statistics["baseline"],
                "difference": comparison.get("difference"),
                "images": statistics["images"],
                **{f"paired_{key}": paired.get(key) for key in _PAIRED},
                **{f"welch_{key}": welch.get(key) for key in _WELCH},
                **{f"joint_{key}": joint.get(key) for key in _JOINT},
                "mark": comparison.get("mark"),
                "reason": _reasons(
                    cell["reason"], *(test.get("reason") for test in (comparison, paired, welch, joint))
                ),
                "signature": " ; ".join(sorted(set(row["signatures"].values()))),
            }


def _quoted(statistics: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the lines of rows that the paper quotes: no run, only a printed value."""
    for row in statistics["quoted"]:
        for metric, value in row["printed"].items():
            yield {
                "table": statistics["table"],
                **{key: row[key] for key in ("id", "label")},
                "metric": metric,
                "printed_percent": value,
                "reason": "printed in the paper, not run",
            }


def _reasons(*reasons: str | None) -> str:
    """Return the reasons why values are missing, each once, joined."""
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def _csv_value(value: Any) -> Any:
    """Return a value for the CSV: empty for None, text quoted if a spreadsheet would run it as a formula."""
    if value is None:
        return ""
    if isinstance(value, str):
        return no_formula(value)
    return repr(value)


def _padded(row: list[str], widths: list[int]) -> str:
    """Return one line of the Markdown table: first column to the left, numbers to the right."""
    first = row[0].ljust(widths[0])
    return (
        "| " + " | ".join([first, *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))]) + " |"
    )


def _cell_text(text: str) -> str:
    """Return text with the characters escaped that end a cell or start HTML."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def _entry(entry: Entry) -> str:
    """Return one cell of the Markdown table."""
    text = f"**{entry.text}**" if entry.strong else entry.text
    return text + (f" [{entry.mark}]" if entry.mark else "")
