"""The one model of a result table: its rows with a cell for each column, on the scale of tables.

Every number, mark and reason that a format shows is computed here or in the statistics, and nowhere
else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from recap.core.errors import RecapError
from recap.core.files import cell as csv_cell
from recap.core.files import csv_text
from recap.settings import Table
from recap.settings.tables import (
    P_UNITS,
    RUN_COLUMNS,
    WHOLE_ROW,
    NotRunRow,
    QuotedRow,
    column_info,
    heading,
)
from recap.statistics.comparison import UNITS
from recap.statistics.results import CellResult, Comparison, NoComparison, RowResult, TableResult
from recap.tables.text import ended, number_text, plain

PRINTED = ("quoted", "not_run")  # parts of which the paper's numbers alone are shown
# Columns that the CSV has only where they say anything.
_WHERE_ANY = ("printed_p", "doubt", "reason", "signature", "difference_of_")
_SCALED = ("mean_difference", "low", "high")
_OF_T = ("t", "degrees", "p", "p_holm")
_OF_TESTS = {
    "paired": (*_SCALED, "t", "p", "p_holm", "d_z", "p_wilcoxon", "p_wilcoxon_holm"),
    "welch": _OF_T,
    "joint": _OF_T,
}
Value = str | float | None  # of a CSV


@dataclass
class Footnotes:
    """What is to say of the numbers of a cell; "" is nothing."""

    mean: str = ""
    difference: str = ""
    p: dict[str, str] = field(default_factory=dict)  #: by the unit of the test
    printed: str = ""
    printed_p: str = ""
    row: str = ""  #: of all printed numbers of the row


@dataclass(frozen=True)
class FrameCell:
    """One column of a row; ``mean``, ``sd`` and ``difference`` are on the scale of tables."""

    metric: str
    result: CellResult
    mean: float | None
    sd: float | None
    difference: float | None
    printed_p: float | None
    best: bool  #: of the rows that were run
    notes: Footnotes

    @property
    def mark(self) -> int:
        """1 or -1 where it is significantly better or worse than the baseline."""
        return self.result.comparison.mark if self.result.comparison else 0

    def p_holm(self, unit: str) -> float | None:
        """Return Holm's p of the test over a unit."""
        comparison = self.result.comparison
        return comparison.tests[unit].p_holm if isinstance(comparison, Comparison) else None


@dataclass(frozen=True)
class FrameRow:
    """One row with its part of the table, and the one reason why it has no number of ours."""

    part: str  #: quoted, not_run, rows, selected or outside
    result: RowResult
    label: str
    note: str
    not_run: str
    cells: list[FrameCell]

    @property
    def printed(self) -> bool:
        """Whether the paper's numbers alone are shown."""
        return self.part in PRINTED


@dataclass(frozen=True)
class Frame:
    """A table: its settings, the statistics that it is from, and its rows."""

    table: Table
    statistics: TableResult
    rows: list[FrameRow]

    @property
    def cells(self) -> list[FrameCell]:
        """The cells of all rows."""
        return list(chain.from_iterable(row.cells for row in self.rows))

    def csv(self) -> str:
        """Return all numbers: one line per row and column."""
        lines = []
        for row in self.rows:
            for cell in row.cells:
                if not row.printed or cell.result.printed_percent is not None:
                    lines.append(_csv_line(self.statistics, row, cell))
        names: dict[str, bool] = {}  # of columns -> whether one line has a value
        for line in lines:
            for name, value in line.items():
                names[name] = names.get(name, False) or value is not None
        shown = [name for name, some in names.items() if some or not name.startswith(_WHERE_ANY)]
        records: list[list[Value]] = [list(shown)]
        for line in lines:
            records.append([csv_cell(line.get(name)) for name in shown])
        return csv_text(records)


def table_frame(table: Table, statistics: TableResult) -> Frame:
    """Return the frame of a table from what :func:`recap.statistics.compare.compare_table` made."""
    parts = {
        "quoted": [_of_print(row, table) for row in statistics.quoted],
        "not_run": [_of_print(row, table) for row in statistics.not_run],
        "rows": statistics.rows,
        "selected": statistics.selected,
        "outside": statistics.outside,
    }
    ids = [each.id for each in (*table.rows, *table.selections, *table.outside)]
    made = [row.id for row in (*statistics.rows, *statistics.selected, *statistics.outside)]
    expected = (ids, list(table.columns), table.baseline)
    if expected != (made, statistics.columns, statistics.baseline):
        raise RecapError(
            f"the statistics of table {statistics.table!r} were made for other rows or columns; "
            "delete the statistics and run the workflow again"
        )
    reasons = {row.id: row.reason for row in statistics.not_run}
    best = {column: _best(statistics.rows, column) for column in table.columns}
    tested = bool(statistics.family.made)
    rows = []
    for part, of_part in parts.items():
        for row in of_part:
            cells = [_cell(part, row, column, best[column], tested) for column in table.columns]
            not_run = reasons.get(row.id, "") if part in PRINTED else _not_run(row)
            note = ended(row.note) if row.note else ""
            rows.append(FrameRow(part, row, plain(row.label), note, not_run, cells))
    return Frame(table, statistics, rows)


def _of_print(row: QuotedRow | NotRunRow, table: Table) -> RowResult:
    """Return a row of which only the paper's numbers are known."""
    cells = {
        column: CellResult(printed_percent=row.printed.get(column)) for column in table.columns
    }
    return RowResult(
        row.id, row.label, cells, printed_p=row.printed_p, p_fits=row.p_fits, doubt=row.doubt
    )


def _not_run(row: RowResult) -> str:
    """Return why a row has no number of ours at all, where that is one reason."""
    reasons = {cell.reason if cell.mean is None else None for cell in row.cells.values()}
    return reasons.pop() or "" if len(reasons) == 1 else ""


def _best(rows: list[RowResult], column: str) -> str | None:
    """Return the best mean of a column as text,
    where two rows or more have one, of two runs or more."""
    info = column_info(column)
    means = []
    fewest = 2
    for row in rows:
        mean = _scaled(row.cells[column].mean, info.scale)
        if mean is not None:
            means.append(mean)
            fewest = min(fewest, row.cells[column].n)
    if column in RUN_COLUMNS or len(means) < 2 or fewest < 2:
        return None
    return number_text(max(means) if info.higher_is_better else min(means), info.digits)


def _cell(part: str, row: RowResult, column: str, best: str | None, tested: bool) -> FrameCell:
    """Return one column of one row."""
    cell = row.cells[column]
    info = column_info(column)
    mean = _scaled(cell.mean, info.scale)
    candidate = part in ("rows", "selected") and mean is not None
    return FrameCell(
        metric=column,
        result=cell,
        mean=mean,
        sd=_scaled(cell.sd, info.scale),
        difference=_scaled(cell.comparison.difference, info.scale) if cell.comparison else None,
        printed_p=row.printed_p.get(column),
        best=candidate and number_text(mean, info.digits) == best,
        notes=_footnotes(part, row, column, tested),
    )


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else round(scale * value, 9)  # 57, not 56.99999999999999


def minus_quoted(row: RowResult, cell: FrameCell) -> float | None:
    """Return the difference of a row of ours to a quoted number.

    None where its data or settings are others.
    """
    mean = row.cells[cell.metric].mean
    printed = cell.result.printed_percent
    if not row.as_printed or mean is None or printed is None:
        return None
    return round(column_info(cell.metric).scale * mean - printed, 9)


def _footnotes(part: str, row: RowResult, column: str, tested: bool) -> Footnotes:
    """Return why a cell lacks its mean, difference or p, and what is to say of the print."""
    name = heading(column)
    notes = Footnotes()
    if part not in PRINTED:
        _say_what_lacks(notes, row.cells[column], name, tested)
    if column in row.doubt:
        notes.printed = f"Doubt about the printed {name}: {ended(row.doubt[column])}"
    if WHOLE_ROW in row.doubt:
        notes.row = f"Doubt about the printed row: {ended(row.doubt[WHOLE_ROW])}"
    if column in row.p_fits:
        notes.printed_p = _explained(row.p_fits[column])
    return notes


def _say_what_lacks(notes: Footnotes, cell: CellResult, name: str, tested: bool) -> None:
    """Add why a cell of ours lacks its mean, difference or p."""
    reason = plain(cell.reason or "")
    if cell.mean is None:
        notes.mean = f"{name} was not run: {reason}."
    elif reason:
        notes.mean = f"Not all seeds have {name}: {reason}."
    comparison = cell.comparison
    if isinstance(comparison, NoComparison):
        why = notes.mean if cell.mean is None else f"No comparison: {plain(comparison.reason)}."
        notes.difference = why if comparison.difference is None else ""
        notes.p = dict.fromkeys(UNITS, why) if tested else {}
    elif comparison and tested:
        for unit, test in comparison.tests.items():
            if test.p_holm is None:
                notes.p[unit] = f"No test: {plain(test.reason or '')}."


def _explained(units: Sequence[str]) -> str:
    """Return the tests that give a printed p for the printed gain at a usual spread."""
    if not units:
        return (
            f"No t-test over {', '.join(P_UNITS.values())} explains this printed p: each needs an "
            "unusual spread."
        )
    tests = " or over ".join(P_UNITS[unit] for unit in units)
    return f"A t-test over {tests} explains this printed p: it gives it at a usual spread."


def from_outside(row: RowResult) -> str:
    """Return what a row is called that is not trained here."""
    return "released weights" if row.released else "captions from outside"


def _csv_line(statistics: TableResult, row: FrameRow, cell: FrameCell) -> dict[str, Value]:
    """Return a line of the CSV: of a quoted row also with the differences of ours to it."""
    result = row.result
    number = cell.result
    comparison = number.comparison
    ours = not row.printed
    scale = column_info(cell.metric).scale
    line: dict[str, Value] = {
        "table": statistics.table,
        "scale": ("paper" if result.as_printed else "other") if ours else None,
        "id": result.id,
        "label": row.label,
        "part": row.part,
        "dataset": result.dataset,
        "subset": result.subset,
        "features": result.features,
        "model": result.model,
        "recipe": result.recipe,
        "stage": result.stage,
        "metric": cell.metric,
        "mean": cell.mean,
        "sd": cell.sd,
        "n": number.n if ours else None,
        "seeds": " ".join(number.values) or None,
        "values": " ".join(repr(_scaled(each, scale)) for each in number.values.values()) or None,
        "best": int(cell.best),
        "source": number.source,
        "printed": number.printed_percent,
        "printed_sd": number.printed_sd_percent,
        "difference_to_printed": number.difference_to_printed_percent,
        "baseline": statistics.baseline if ours else None,
        "difference": cell.difference,
        "mark": comparison.mark if comparison else None,
        "images": statistics.images if ours else None,
    }
    for key, names in _OF_TESTS.items():
        test = getattr(comparison, key, None)
        for name in names:
            value = getattr(test, name, None)
            line[f"{key}_{name}"] = _scaled(value, scale) if name in _SCALED else value
    line["printed_p"] = cell.printed_p
    line["doubt"] = cell.notes.printed or cell.notes.row or None
    line["reason"] = _reasons(row, number)
    line["signature"] = " ; ".join(sorted(set(result.signatures.values()))) if ours else None
    if row.part == "quoted":
        for each in statistics.rows:
            line[f"difference_of_{each.id}"] = minus_quoted(each, cell)
    return line


def _reasons(row: FrameRow, cell: CellResult) -> str | None:
    """Return for the CSV why numbers are missing, and where an untrained row is from."""
    reasons: list[str | None] = []
    if row.part == "outside":
        reasons.append(f"{from_outside(row.result)}: {row.result.captions}")
    elif row.part == "not_run":
        reasons.append(f"own, not run: {row.not_run}")
    elif row.part == "quoted":
        reasons.append("printed in the paper, not run")
    reasons.append(cell.reason)
    if cell.comparison:
        reasons.append(cell.comparison.reason)
    if isinstance(cell.comparison, Comparison):
        reasons += [test.reason for test in cell.comparison.tests.values()]
    return "; ".join(dict.fromkeys(filter(None, reasons))) or None
