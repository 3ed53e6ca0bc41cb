"""What a result table says, as text, before it becomes LaTeX or Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recap.core.config import Table
from recap.core.errors import RecapError

SIGNIFICANT = 0.05
NONE = "--"


@dataclass(frozen=True)
class Entry:
    """One cell: ``text``, ``strong`` when significantly better than the baseline, ``mark`` of its footnote if any."""

    text: str
    strong: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Line:
    """One line of a block: what it holds, and one entry a column."""

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
        """Return the mark of a footnote, a new one unless the text already stands there."""
        for mark, known in self.footnotes.items():
            if known == text:
                return mark
        mark = _letters(len(self.footnotes))
        self.footnotes[mark] = text
        return mark


def table_content(table: Table, statistics: Mapping[str, Any]) -> Content:
    """Turn the statistics of a table into text.

    Raises:
        RecapError: the statistics belong to another version of the table.
    """
    _check(table, statistics)
    content = Content(table.title, table.scale, list(table.columns))
    for quoted in table.quoted:
        entries = [Entry(_number(quoted.printed.get(column), 1)) for column in content.columns]
        content.blocks.append(Block(f"{plain(quoted.label)} (printed, not run)", [Line("printed", entries)]))
    for row in statistics["rows"]:
        content.blocks.append(_block(row, statistics["baseline"], content))
    content.signatures = _signatures(statistics)
    content.notes = _notes(statistics)
    return content


def plain(text: str) -> str:
    """Return text on one line without control characters (captions and labels come from files)."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _letters(number: int) -> str:
    """Return a, b, ..., z, aa, ab, ..."""
    first = _letters(number // 26 - 1) if number >= 26 else ""
    return first + chr(ord("a") + number % 26)


def _check(table: Table, statistics: Mapping[str, Any]) -> None:
    """Refuse statistics that were made for other rows, columns or another baseline."""
    asked = ([row.id for row in table.rows], list(table.columns), table.baseline)
    found = ([row["id"] for row in statistics["rows"]], statistics["columns"], statistics["baseline"])
    if asked != found:
        raise RecapError(
            f"the statistics of table {statistics['table']!r} were made for other rows or columns; "
            "make them again with `recap statistics`"
        )


def _block(row: Mapping[str, Any], baseline: str, content: Content) -> Block:
    """Return the lines of one row."""
    cells = [row["cells"][column] for column in content.columns]
    counts = {cell["n"] for cell in cells if cell["n"]}
    same = counts.pop() if len(counts) == 1 else None
    lines = [
        Line(
            "ours" if same is None else f"ours (n = {same})",
            [_ours(c, col, same, content) for col, c in _zip(row, content)],
        ),
        Line("printed", [Entry(_number(cell["printed_percent"], 1)) for cell in cells]),
    ]
    if any(cell["printed_percent"] is not None for cell in cells):
        differences = [Entry(_number(cell["difference_to_printed_percent"], 1, signed=True)) for cell in cells]
        lines.append(Line("ours minus printed", differences))
    if row["id"] != baseline:
        lines.append(Line("ours minus baseline", [_to_baseline(c, col, content) for col, c in _zip(row, content)]))
        lines.append(Line("p (Holm)", [_p(c, col, content) for col, c in _zip(row, content)]))
    label = plain(row["label"]) + (" (baseline)" if row["id"] == baseline else "")
    return Block(label, lines)


def _zip(row: Mapping[str, Any], content: Content) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the columns with their cells."""
    return [(column, row["cells"][column]) for column in content.columns]


def _number(value: float | None, digits: int, *, signed: bool = False) -> str:
    """Return a number, or two dashes."""
    if value is None:
        return NONE
    text = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
    return text.replace("-", "+") if signed and float(text) == 0 else text


def _ours(cell: Mapping[str, Any], column: str, same: int | None, content: Content) -> Entry:
    """Return our mean and spread in percent."""
    if cell["mean"] is None:
        return Entry(NONE, mark=_not_run(cell, column, content))
    text = _number(100 * cell["mean"], 1)
    if cell["sd"] is not None:
        text += f" ± {_number(100 * cell['sd'], 1)}"
    if same is None:
        text += f" ({cell['n']})"
    mark = content.mark(f"Not all seeds have {column}: {plain(cell['reason'])}.") if cell["reason"] else ""
    return Entry(text, strong=_direction(cell) > 0, mark=mark)


def _not_run(cell: Mapping[str, Any], column: str, content: Content) -> str:
    """Return the mark of the footnote that says why a row lacks a metric."""
    return content.mark(f"{column} was not run: {plain(cell['reason'])}.")


def _incomparable(cell: Mapping[str, Any], column: str, content: Content) -> Entry:
    """Return the cell of a comparison that lacks one side."""
    if cell["mean"] is None:
        return Entry(NONE, mark=_not_run(cell, column, content))
    return Entry(NONE, mark=content.mark(f"No comparison: {plain(cell['comparison']['reason'])}."))


def _direction(cell: Mapping[str, Any]) -> int:
    """Return 1 or -1 where a row is significantly better or worse than the baseline, else 0.

    Image scores and corpus score must point the same way: for BLEU and METEOR they need not.
    """
    comparison = cell["comparison"]
    if comparison is None or comparison["paired"] is None or comparison["paired"]["p_holm"] is None:
        return 0
    paired = comparison["paired"]
    if paired["p_holm"] >= SIGNIFICANT or paired["mean_difference"] * comparison["difference"] <= 0:
        return 0
    return 1 if comparison["difference"] > 0 else -1


def _to_baseline(cell: Mapping[str, Any], column: str, content: Content) -> Entry:
    """Return the difference of corpus scores to the baseline in percent points."""
    comparison = cell["comparison"]
    if comparison["difference"] is None:
        return _incomparable(cell, column, content)
    return Entry(_number(100 * comparison["difference"], 2, signed=True))


def _p(cell: Mapping[str, Any], column: str, content: Content) -> Entry:
    """Return the adjusted p of the paired t-test, with an arrow where it is significant."""
    comparison = cell["comparison"]
    paired = comparison["paired"]
    if paired is None:
        return _incomparable(cell, column, content)
    if paired["p_holm"] is None:
        return Entry(NONE, mark=content.mark(f"No t-test for {column}: {plain(paired['reason'])}."))
    p = paired["p_holm"]
    text = "<0.001" if p < 0.001 else f"{p:.3f}"
    direction = _direction(cell)
    if direction == 0 and p < SIGNIFICANT:
        return Entry(text, mark=content.mark(f"{column}: image scores and corpus score point in opposite directions."))
    return Entry(text + {1: " ↑", -1: " ↓", 0: ""}[direction])


def _signatures(statistics: Mapping[str, Any]) -> list[str]:
    """Return the signatures in use, each once; where there are several, with the rows that they belong to."""
    rows: dict[str, list[str]] = {}
    for row in statistics["rows"]:
        for text in sorted(set(row["signatures"].values())):
            rows.setdefault(text, []).append(row["id"])
    if len(rows) == 1:
        return list(rows)
    return [f"{text} ({', '.join(ids)})" for text, ids in rows.items()]


def _notes(statistics: Mapping[str, Any]) -> list[str]:
    """Return the sentences that stand below every table."""
    seeds = statistics["seeds"]
    listed = ", ".join(str(seed) for seed in seeds)
    spread = f"seed {listed} alone, so no spread"
    if len(seeds) > 1:
        spread = f"mean ± standard deviation over seeds {listed}"
    tests = statistics["family"]["tests"]["paired.p"]
    label = next(plain(row["label"]) for row in statistics["rows"] if row["id"] == statistics["baseline"])
    return [
        f"Ours: percent (CIDEr of 1 is 100), {spread}, {statistics['images']} images.",
        "Printed: quoted from the paper, measured there on the paper's data and scale, not here; "
        "a difference to it also holds the difference in data and scale.",
        f"p: two-sided paired t-test over images (scores averaged over seeds) against {label}, "
        f"Holm-corrected over the {tests} comparisons of this table; "
        f"an arrow marks p < {SIGNIFICANT:g}, bold is significantly better. "
        "Wilcoxon, Welch over seeds, intervals and effect sizes stand in the CSV. "
        "BLEU is tested on sentence-level BLEU.",
    ]
