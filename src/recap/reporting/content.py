"""The content of a result table as text, before it is formatted as LaTeX, Markdown or HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from recap.core.errors import RecapError
from recap.reporting.notes import SEEDS_LINE, from_outside, seeds_for_printed, table_notes
from recap.reporting.printed import P_LINE, doubt_marks, note_mark, own_not_run_mark, printed_p_entries
from recap.reporting.text import Footnotes, p_text, plain
from recap.settings import NotRunRow, QuotedRow, Table
from recap.settings.tables import WHOLE_ROW, column_info, heading
from recap.statistics.comparison import UNITS

NONE = "--"
OUTSIDE = "captions"  # key of a row that is not trained here


@dataclass(frozen=True)
class Entry:
    """One cell: ``text``, ``strong`` if marked as better than the baseline, ``mark`` of its footnote if any."""

    text: str
    strong: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Line:
    """One line of a block: its kind, one entry per column, and the mark of a footnote about the whole line if any."""

    kind: str
    entries: list[Entry]
    mark: str = ""


@dataclass(frozen=True)
class Block:
    """All lines of one row of the table."""

    label: str
    lines: list[Line]


@dataclass
class Content:
    """A whole table: ``columns`` (headings), ``blocks``, ``footnotes`` and ``notes`` (sentences below it)."""

    title: str
    scale: str
    columns: list[str]
    blocks: list[Block] = field(default_factory=list)
    footnotes: Footnotes = field(default_factory=Footnotes)
    notes: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)


def table_content(table: Table, statistics: Mapping[str, Any]) -> Content:
    """Return the content of a table from its statistics."""
    _check(table, statistics)
    content = Content(table.title, table.scale, [heading(column) for column in table.columns])
    for quoted in table.quoted:
        lines = _printed_alone(quoted, table.columns, content)
        content.blocks.append(Block(f"{plain(quoted.label)} (printed, not run)", lines))
    content.blocks += [_own_not_run(row, table.columns, content) for row in table.not_run]
    for row in run_rows(statistics):
        content.blocks.append(_block(row, statistics, content))
    content.signatures = _signatures(statistics)
    content.notes = table_notes(statistics)
    return content


def run_rows(statistics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows with numbers of ours: those that were run, those chosen among them, and captions from outside."""
    return [row for kind in ("rows", "selected", "outside") for row in statistics.get(kind, [])]


def _numbers(row: QuotedRow, columns: Sequence[str]) -> dict[str, str]:
    """Return the printed numbers of a row as text."""
    return {column: number(row.printed.get(column), column_info(column).digits) for column in columns}


def _own_not_run(row: NotRunRow, columns: Sequence[str], content: Content) -> Block:
    """Return a row of the paper's own that was not run: a line with the mark of the reason, and printed numbers."""
    lines = [_without(row.reason, len(columns), content), *_printed_alone(row, columns, content)]
    return Block(f"{plain(row.label)} (own, not run)", lines)


def _printed_alone(row: QuotedRow, columns: Sequence[str], content: Content) -> list[Line]:
    """Return what the paper prints in a row that has no run."""
    line = _doubted("printed", _numbers(row, columns), row.doubt, content)
    return [line, *_printed_p(row.model_dump(), columns, content)]


def _printed_p(row: Mapping[str, Any], columns: Sequence[str], content: Content) -> list[Line]:
    """Return the line of the p-values that the paper prints, or nothing."""
    entries = printed_p_entries(row, columns, content.footnotes)
    return [Line(P_LINE, [Entry(text or NONE, mark=mark) for text, mark in entries])] if entries else []


def _without(reason: str, columns: int, content: Content) -> Line:
    """Return the line of a row that has no number of ours."""
    return Line("ours: not run", [Entry(NONE)] * columns, own_not_run_mark(reason, content.footnotes))


def one_reason(cells: Iterable[Mapping[str, Any]]) -> str | None:
    """Return why a row has no number at all, where that is one reason."""
    found = {cell["reason"] if cell["mean"] is None else None for cell in cells}
    return found.pop() if len(found) == 1 else None


def _check(table: Table, statistics: Mapping[str, Any]) -> None:
    """Refuse statistics that were made for other rows, columns or another baseline."""
    ids = [each.id for rows in (table.rows, table.selections, table.outside) for each in rows]
    asked = (ids, list(table.columns), table.baseline)
    found = ([row["id"] for row in run_rows(statistics)], statistics["columns"], statistics["baseline"])
    again = "delete the statistics and run the workflow again"
    if asked != found:
        raise RecapError(
            f"the statistics of table {statistics['table']!r} were made for other rows or columns; {again}"
        )
    if "power" not in statistics["family"] or "not_run" not in statistics:
        raise RecapError(f"the statistics of table {statistics['table']!r} are of an earlier version; {again}")


def _block(row: Mapping[str, Any], statistics: Mapping[str, Any], content: Content) -> Block:
    """Return the lines of one row."""
    baseline, family, outside = statistics["baseline"], statistics["family"], OUTSIDE in row
    units = ["images"] if outside else family["units"]  # one file has no runs to test over
    cells = [(column, row["cells"][column]) for column in statistics["columns"]]
    counts = {cell["n"] for _, cell in cells if cell["n"]}
    same = counts.pop() if len(counts) == 1 else None
    reason = one_reason(cell for _, cell in cells)
    if reason:
        lines = [_without(reason, len(cells), content)]
    else:
        sources = dict.fromkeys(cell["source"] for _, cell in cells if cell["source"])
        kind = ", ".join(["scored here" if outside else "ours", *sources])
        kind = kind if same is None or outside else f"{kind} (n = {same})"
        ours = [_ours(cell, column, same, content) for column, cell in cells]
        lines = [Line(kind, ours, note_mark(row, content.footnotes))]
    lines += _printed_lines(cells, row["doubt"], content)
    if row["id"] != baseline and not reason:
        differences = [_difference(cell, column, content) for column, cell in cells]
        lines.append(Line("minus baseline" if outside else "ours minus baseline", differences))
        lines += _printed_p(row, statistics["columns"], content)
        for unit in units if family["made"] else ():
            lines.append(Line(f"p, {unit} (Holm)", [_p(unit, cell, column, content) for column, cell in cells]))
        seeds = [seeds_for_printed(cell) for _, cell in cells]
        if any(seeds):
            lines.append(Line(SEEDS_LINE, [Entry(text or NONE) for text in seeds]))
    origin = " (baseline)" if row["id"] == baseline else f" ({from_outside(row)})" if outside else ""
    return Block(plain(row["label"]) + origin, lines)


def _printed_lines(
    cells: Sequence[tuple[str, Mapping[str, Any]]], doubt: Mapping[str, str], content: Content
) -> list[Line]:
    """Return the printed numbers with their spread, and how far ours are from them; of what is not there, no line."""
    lines = []
    if any(cell["printed_percent"] is not None for _, cell in cells):
        printed = {name: number(cell["printed_percent"], column_info(name).digits) for name, cell in cells}
        spreads = {name: cell["printed_sd_percent"] for name, cell in cells}  # beside the number in the paper
        printed = {k: text if spreads[k] is None else f"{text} ± {spreads[k]:g}" for k, text in printed.items()}
        lines.append(_doubted("printed", printed, doubt, content))
    key = "difference_to_printed_percent"
    if any(cell[key] is not None for _, cell in cells):
        entries = [Entry(number(cell[key], column_info(name).digits, signed=True)) for name, cell in cells]
        lines.append(Line("ours minus printed", entries))
    return lines


def _doubted(kind: str, printed: Mapping[str, str], doubt: Mapping[str, str], content: Content) -> Line:
    """Return a line of printed numbers with the footnotes of those that are doubtful."""
    marks = doubt_marks(doubt, content.footnotes)
    entries = [Entry(text, mark=marks.get(column, "")) for column, text in printed.items()]
    return Line(kind, entries, marks.get(WHOLE_ROW, ""))


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
    info = column_info(column)
    text = number(info.scale * cell["mean"], info.digits)
    if cell["sd"] is not None:
        text += f" ± {number(info.scale * cell['sd'], info.digits)}"
    if same is None:
        text += f" ({cell['n']})"
    mark = content.footnotes.mark(f"Not all seeds have {column}: {plain(cell['reason'])}.") if cell["reason"] else ""
    return Entry(text, strong=mark_of(cell) > 0, mark=mark)


def _not_run(cell: Mapping[str, Any], column: str, content: Content) -> str:
    """Return the mark of the footnote with the reason why a row lacks a metric."""
    return content.footnotes.mark(f"{heading(column)} was not run: {plain(cell['reason'])}.")


def _incomparable(cell: Mapping[str, Any], column: str, content: Content) -> Entry:
    """Return the cell of a comparison for which one row has no score."""
    if cell["mean"] is None:
        return Entry(NONE, mark=_not_run(cell, column, content))
    return Entry(NONE, mark=content.footnotes.mark(f"No comparison: {plain(cell['comparison']['reason'])}."))


def mark_of(cell: Mapping[str, Any]) -> int:
    """Return 1 or -1 where a row is marked as better or worse than the baseline, else 0."""
    return 0 if cell["comparison"] is None else int(cell["comparison"]["mark"])


def _difference(cell: Mapping[str, Any], column: str, content: Content) -> Entry:
    """Return the difference of corpus scores to the baseline on the scale of the metric, with an arrow if marked.

    The arrow shows the direction of the difference; whether that is better depends on the metric.
    """
    comparison = cell["comparison"]
    if comparison is None:  # no metric
        return Entry(NONE)
    if comparison["difference"] is None:
        return _incomparable(cell, column, content)
    info, arrow = column_info(column), ""
    if mark_of(cell):
        arrow = " ↑" if comparison["difference"] > 0 else " ↓"
    return Entry(number(info.scale * comparison["difference"], info.digits + 1, signed=True) + arrow)


def _p(unit: str, cell: Mapping[str, Any], column: str, content: Content) -> Entry:
    """Return the adjusted p of the test over a unit."""
    if cell["comparison"] is None:  # no metric
        return Entry(NONE)
    test = cell["comparison"][UNITS[unit]]
    if test is None:
        return _incomparable(cell, column, content)
    p = test["p_holm"]
    if p is None:
        return Entry(NONE, mark=content.footnotes.mark(f"No test: {plain(test['reason'])}."))
    return Entry(p_text(p))


def _signatures(statistics: Mapping[str, Any]) -> list[str]:
    """Return the signatures in use, each once; where there are several, with the rows that they belong to."""
    rows: dict[str, list[str]] = {}
    for row in [*statistics["rows"], *statistics.get("outside", [])]:
        for text in sorted(set(row["signatures"].values())):
            rows.setdefault(text, []).append(row["id"])
    if len(rows) == 1:
        return list(rows)
    return [f"{text} ({', '.join(ids)})" for text, ids in rows.items()]
