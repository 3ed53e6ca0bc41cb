"""A result table in the layout of a paper: one line per row, and what stands in its caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recap.core.hashing import parse_signature
from recap.reporting.content import OUTSIDE, mark_of, number, one_reason
from recap.reporting.notes import NO_RUNS, from_outside, scored_here
from recap.reporting.printed import doubt_marks, note_mark, own_not_run_mark
from recap.reporting.text import Footnotes, plain
from recap.settings import NotRunRow, QuotedRow, Table
from recap.settings.metrics import server_names
from recap.settings.tables import RUN_COLUMNS, WHOLE_ROW, column_info, heading
from recap.statistics.comparison import SIGNIFICANT

RUN = "run"
_SHORT = {"METEOR": "M", "ROUGE-L": "R", "CIDEr": "C", "SPICE": "S"}
# Fields of a signature that only the full table shows.
_IN_FULL = {"images", "split", "len", "lp", "recap"}


@dataclass(frozen=True)
class Score:
    """One cell: mean and standard deviation as text; ``best`` of its column; ``mark`` 1 or -1 if significant.

    ``doubt`` is the mark of a footnote about a printed number.
    """

    mean: str
    sd: str = ""
    best: bool = False
    mark: int = 0
    doubt: str = ""


@dataclass(frozen=True)
class PaperRow:
    """One line: a row that was run, or (``printed``) one of which the paper's numbers alone are shown.

    ``source`` says where the numbers are from, ``origin`` the same behind the label, where it is not `run`; ``marks``
    are those of footnotes about the row.
    """

    label: str
    scores: list[Score]
    source: str = RUN
    origin: str = ""
    printed: bool = False
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class PaperTable:
    """The table: ``scale`` is one sentence or nothing, ``legend`` says what marks mean, ``note`` what was measured."""

    title: str
    scale: str
    columns: list[str]
    rows: list[PaperRow]
    legend: list[str]
    note: str
    footnotes: Footnotes


def paper_table(table: Table, statistics: Mapping[str, Any]) -> PaperTable:
    """Return a table from its statistics; of one run a row, nothing is bold or marked."""
    columns = list(table.columns)
    best = {column: _best(statistics["rows"], column) for column in columns}
    footnotes = Footnotes()
    rows = [_quoted(row, columns, footnotes) for row in table.quoted]
    rows += [_own_not_run(row, columns, footnotes) for row in table.not_run]
    for row in [*statistics["rows"], *statistics.get("selected", [])]:
        scores = [_score(row["cells"][column], column, best[column]) for column in columns]
        noted = tuple(filter(None, [note_mark(row, footnotes)]))
        rows.append(_with_origin(PaperRow(plain(row["label"]), scores, marks=noted), row, columns, footnotes))
    for row in statistics.get("outside", []):
        scores = [_score(row["cells"][column], column, best="") for column in columns]
        mark = footnotes.mark(f"{scored_here(row)}. {NO_RUNS}")
        kind = from_outside(row)
        rows.append(PaperRow(plain(row["label"]), scores, f"{kind}: {plain(row[OUTSIDE])}", kind, marks=(mark,)))
    title, scale = plain(table.title), plain(table.short_scale)
    legend, note = _legend(rows, columns, statistics), _note(statistics)
    return PaperTable(title, scale, columns, rows, legend, note, footnotes)


def _quoted(row: QuotedRow, columns: Sequence[str], footnotes: Footnotes) -> PaperRow:
    """Return a row that the paper quotes."""
    marks = doubt_marks(row.doubt, footnotes)
    printed = {column: number(row.printed.get(column), column_info(column).digits) for column in columns}
    scores = [Score(text, doubt=marks.get(column, "")) for column, text in printed.items()]
    about_row = tuple(marks[key] for key in marks if key == WHOLE_ROW)
    return PaperRow(plain(row.label), scores, "printed", "printed, not run", True, about_row)


def _own_not_run(row: NotRunRow, columns: Sequence[str], footnotes: Footnotes) -> PaperRow:
    """Return a row of the paper's own that was not run."""
    return _not_run(_quoted(row, columns, footnotes), row.reason, footnotes)


def _not_run(row: PaperRow, reason: str, footnotes: Footnotes) -> PaperRow:
    """Return a row of the paper's own with the reason why it was not run."""
    marks = (*row.marks, own_not_run_mark(reason, footnotes))
    return replace(row, source=f"own, not run: {plain(reason)}", origin="own, not run", marks=marks)


def _with_origin(shown: PaperRow, row: Mapping[str, Any], columns: Sequence[str], footnotes: Footnotes) -> PaperRow:
    """Return a row that was run with the word that somebody else scored it, or that nobody did."""
    cells = [row["cells"][column] for column in columns]
    reason = one_reason(cells)
    if reason:
        return _not_run(shown, reason, footnotes)
    sources = ", ".join(dict.fromkeys(plain(cell["source"]) for cell in cells if cell["source"]))
    if not sources:
        return shown
    origin = f"scored by {sources}"
    return replace(shown, source=f"{RUN}, {origin}", marks=(*shown.marks, footnotes.mark(f"S{origin[1:]}.")))


def short_name(column: str) -> list[str]:
    """Return the name of a column as papers abbreviate it, in words that may be set below each other."""
    if column in RUN_COLUMNS:
        return heading(column).split()
    server = column in server_names()
    name = column.partition(".")[2] if server else column
    name = f"B-{name.removeprefix('BLEU-')}" if name.startswith("BLEU-") else _SHORT.get(name, name)
    return [*([column.partition(".")[0]] if server else []), *name.split()]


def _shown(cell: Mapping[str, Any], column: str) -> str:
    info = column_info(column)
    return number(None if cell["mean"] is None else info.scale * cell["mean"], info.digits)


def _best(rows: Sequence[Mapping[str, Any]], column: str) -> str:
    """Return the best mean as it is shown, or nothing where there are not two rows, each of two runs or more.

    Of a column that is no metric none is best.
    """
    cells = [row["cells"][column] for row in rows if row["cells"][column]["mean"] is not None]
    if column in RUN_COLUMNS or len(cells) < 2 or any(cell["n"] < 2 for cell in cells):
        return ""
    choose = max if column_info(column).higher_is_better else min
    return _shown(choose(cells, key=lambda cell: cell["mean"]), column)


def _score(cell: Mapping[str, Any], column: str, best: str) -> Score:
    info, mean = column_info(column), _shown(cell, column)
    sd = "" if cell["sd"] is None else number(info.scale * cell["sd"], info.digits)
    return Score(mean, sd, best=mean == best, mark=mark_of(cell))


def _legend(rows: Sequence[PaperRow], columns: Sequence[str], statistics: Mapping[str, Any]) -> list[str]:
    """Return the sentences that a caption ends with."""
    baseline = next(plain(row["label"]) for row in statistics["rows"] if row["id"] == statistics["baseline"])
    scores = [score for row in rows for score in row.scores]
    sentences = []
    if any(score.best for score in scores):
        sentences.append("Bold: best mean of the rows that were run.")
    if any(score.mark for score in scores):
        sentences.append(f"†: differs from {baseline} (p < {SIGNIFICANT:g} over images, runs and both; Holm).")
    elif len(statistics["seeds"]) > 1 and statistics["family"]["made"]:
        sentences.append(f"No difference from {baseline} is significant over both images and runs.")
    if any(row.printed for row in rows):
        sentences.append("Above the line: printed numbers, not run.")
    lower = [column for column in columns if column_info(column).higher_is_better is False]
    return [*sentences, *([f"Lower is better: {', '.join(lower)}."] if lower else [])]


def _note(statistics: Mapping[str, Any]) -> str:
    """Return one line on seeds, images and how scores were made, and which names are short."""
    seeds = ", ".join(map(str, statistics["seeds"]))
    if len(statistics["seeds"]) == 1:
        spread = f"One seed ({seeds}): no spread, and no difference is marked"
    else:
        spread = f"Mean ± standard deviation over seeds {seeds}"
        single = any(cell["n"] == 1 for row in statistics["rows"] for cell in row["cells"].values())
        spread += "; without ±: one run" if single else ""
    columns = statistics["columns"]
    short = {column.rpartition(".")[2] if column in server_names() else column for column in columns} & set(_SHORT)
    names = [*(["B BLEU"] if any("BLEU-" in column for column in columns) else [])]
    names += [f"{letter} {column}" for column, letter in _SHORT.items() if column in short]
    unscaled = [heading(column) for column in columns if column_info(column).scale != 100]
    units = f"Percent, but for {', '.join(unscaled)}" if unscaled else "Percent"
    parts = [spread, f"{statistics['images']} test images", _signature(statistics)]
    return f"{units}. {'; '.join(filter(None, parts))}." + (f" {', '.join(names)}." if names else "")


def _signature(statistics: Mapping[str, Any]) -> str:
    """Return the fields of the signature in which all rows agree, but for those that the full table alone shows."""
    found = [parse_signature(text) for row in statistics["rows"] for text in row["signatures"].values()]
    agreed = {key: value for key, value in found[0].items() if all(fields.get(key) == value for fields in found)}
    return ", ".join(f"{key} {value}" for key, value in agreed.items() if key not in _IN_FULL)
