"""The content of a result table as text, before it is formatted as LaTeX, Markdown or HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from recap.core.errors import RecapError
from recap.reporting.notes import table_notes
from recap.reporting.text import plain
from recap.settings import Table
from recap.settings.metrics import score_info
from recap.statistics.comparison import UNITS

NONE = "--"


@dataclass(frozen=True)
class Entry:
    """One cell: ``text``, ``strong`` if marked as better than the baseline, ``mark`` of its footnote if any."""

    text: str
    strong: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Line:
    """One line of a block: its kind, and one entry per column."""

    kind: str
    entries: list[Entry]


@dataclass(frozen=True)
class Block:
    """All lines of one row of the table."""

    label: str
    lines: list[Line]


@dataclass
class Content:
    """A whole table: ``blocks``, ``footnotes`` (mark -> text) and ``notes`` (sentences below it)."""

    title: str
    scale: str
    columns: list[str]
    blocks: list[Block] = field(default_factory=list)
    footnotes: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)

    def mark(self, text: str) -> str:
        """Return the mark of a footnote, a new one unless the text is already a footnote."""
        for mark, known in self.footnotes.items():
            if known == text:
                return mark
        mark = _letters(len(self.footnotes))
        self.footnotes[mark] = text
        return mark


def table_content(table: Table, statistics: Mapping[str, Any]) -> Content:
    """Return the content of a table from its statistics.

    Raises:
        RecapError: the statistics were made for another version of the table.
    """
    _check(table, statistics)
    content = Content(table.title, table.scale, list(table.columns))
    for quoted in table.quoted:
        entries = [Entry(number(quoted.printed.get(column), score_info(column).digits)) for column in content.columns]
        content.blocks.append(Block(f"{plain(quoted.label)} (printed, not run)", [Line("printed", entries)]))
    for row in statistics["rows"]:
        content.blocks.append(_block(row, statistics, content))
    content.signatures = _signatures(statistics)
    content.notes = table_notes(statistics)
    return content


def _letters(number: int) -> str:
    """Return a, b, ..., z, aa, ab, ..."""
    first = _letters(number // 26 - 1) if number >= 26 else ""
    return first + chr(ord("a") + number % 26)


def _check(table: Table, statistics: Mapping[str, Any]) -> None:
    """Refuse statistics that were made for other rows, columns or another baseline."""
    asked = ([row.id for row in table.rows], list(table.columns), table.baseline)
    found = ([row["id"] for row in statistics["rows"]], statistics["columns"], statistics["baseline"])
    again = "make them again with `recap statistics`"
    if asked != found:
        raise RecapError(
            f"the statistics of table {statistics['table']!r} were made for other rows or columns; {again}"
        )
    if "power" not in statistics["family"]:
        raise RecapError(f"the statistics of table {statistics['table']!r} are of an earlier version; {again}")


def _block(row: Mapping[str, Any], statistics: Mapping[str, Any], content: Content) -> Block:
    """Return the lines of one row."""
    baseline, units = statistics["baseline"], statistics["family"]["units"]
    cells = _columns(row, content)
    counts = {cell["n"] for _, cell in cells if cell["n"]}
    same = counts.pop() if len(counts) == 1 else None
    kind = "ours" if same is None else f"ours (n = {same})"
    lines = [Line(kind, [_ours(cell, column, same, content) for column, cell in cells])]
    lines += _printed_lines(cells)
    if row["id"] != baseline:
        lines.append(Line("ours minus baseline", [_difference(cell, column, content) for column, cell in cells]))
        for unit in units:
            lines.append(Line(f"p, {unit} (Holm)", [_p(unit, cell, column, content) for column, cell in cells]))
    label = plain(row["label"]) + (" (baseline)" if row["id"] == baseline else "")
    return Block(label, lines)


def _printed_lines(cells: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Line]:
    """Return the printed numbers with their spread, and how far ours are from them; of what is not there, no line."""
    lines = []
    if any(cell["printed_percent"] is not None for _, cell in cells):
        lines.append(Line("printed", [Entry(_printed(cell, score_info(name).digits)) for name, cell in cells]))
    key = "difference_to_printed_percent"
    if any(cell[key] is not None for _, cell in cells):
        entries = [Entry(number(cell[key], score_info(name).digits, signed=True)) for name, cell in cells]
        lines.append(Line("ours minus printed", entries))
    return lines


def _printed(cell: Mapping[str, Any], digits: int) -> str:
    """Return a printed number, with the standard deviation that stands beside it in the paper."""
    text, spread = number(cell["printed_percent"], digits), cell["printed_sd_percent"]
    return text if spread is None else f"{text} ± {spread:g}"


def _columns(row: Mapping[str, Any], content: Content) -> list[tuple[str, Mapping[str, Any]]]:
    """Return pairs of column and cell."""
    return [(column, row["cells"][column]) for column in content.columns]


def number(value: float | None, digits: int, *, signed: bool = False) -> str:
    """Return a number as text, or two dashes."""
    if value is None:
        return NONE
    text = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
    return text.replace("-", "+") if signed and float(text) == 0 else text


def _ours(cell: Mapping[str, Any], column: str, same: int | None, content: Content) -> Entry:
    """Return our mean and spread on the scale of the metric."""
    if cell["mean"] is None:
        return Entry(NONE, mark=_not_run(cell, column, content))
    info = score_info(column)
    text = number(info.scale * cell["mean"], info.digits)
    if cell["sd"] is not None:
        text += f" ± {number(info.scale * cell['sd'], info.digits)}"
    if same is None:
        text += f" ({cell['n']})"
    mark = content.mark(f"Not all seeds have {column}: {plain(cell['reason'])}.") if cell["reason"] else ""
    return Entry(text, strong=_mark(cell) > 0, mark=mark)


def _not_run(cell: Mapping[str, Any], column: str, content: Content) -> str:
    """Return the mark of the footnote with the reason why a row lacks a metric."""
    return content.mark(f"{column} was not run: {plain(cell['reason'])}.")


def _incomparable(cell: Mapping[str, Any], column: str, content: Content) -> Entry:
    """Return the cell of a comparison for which one row has no score."""
    if cell["mean"] is None:
        return Entry(NONE, mark=_not_run(cell, column, content))
    return Entry(NONE, mark=content.mark(f"No comparison: {plain(cell['comparison']['reason'])}."))


def _mark(cell: Mapping[str, Any]) -> int:
    """Return 1 or -1 where a row is marked as better or worse than the baseline, else 0."""
    return 0 if cell["comparison"] is None else int(cell["comparison"]["mark"])


def _difference(cell: Mapping[str, Any], column: str, content: Content) -> Entry:
    """Return the difference of corpus scores to the baseline on the scale of the metric, with an arrow if marked.

    The arrow shows the direction of the difference; whether that is better depends on the metric.
    """
    comparison = cell["comparison"]
    if comparison["difference"] is None:
        return _incomparable(cell, column, content)
    info, arrow = score_info(column), ""
    if _mark(cell):
        arrow = " ↑" if comparison["difference"] > 0 else " ↓"
    return Entry(number(info.scale * comparison["difference"], info.digits + 1, signed=True) + arrow)


def _p(unit: str, cell: Mapping[str, Any], column: str, content: Content) -> Entry:
    """Return the adjusted p of the test over a unit."""
    test = cell["comparison"][UNITS[unit]]
    if test is None:
        return _incomparable(cell, column, content)
    p = test["p_holm"]
    if p is None:
        return Entry(NONE, mark=content.mark(f"No test: {plain(test['reason'])}."))
    return Entry("<0.001" if p < 0.001 else f"{p:.3f}")


def _signatures(statistics: Mapping[str, Any]) -> list[str]:
    """Return the signatures in use, each once; where there are several, with the rows that they belong to."""
    rows: dict[str, list[str]] = {}
    for row in statistics["rows"]:
        for text in sorted(set(row["signatures"].values())):
            rows.setdefault(text, []).append(row["id"])
    if len(rows) == 1:
        return list(rows)
    return [f"{text} ({', '.join(ids)})" for text, ids in rows.items()]
