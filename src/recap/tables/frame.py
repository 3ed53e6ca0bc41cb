"""The one model of a result table: its rows with a cell for each column, on the scale of tables.

Every number, mark and reason that a format shows is computed here or in the statistics, and nowhere
else.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from recap.core.errors import RecapError
from recap.core.files import csv_text, csv_value
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
from recap.statistics.results import CellResult, Comparison, NoComparison, RowResult, TableResult
from recap.tables.text import ended, number_text, plain

PRINTED = ("quoted", "not_run")  # origins of rows of which the paper's numbers alone are shown
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


@dataclass(frozen=True)
class FrameCell:
    """One column of a row: its numbers on the scale of tables, and what is to say of them."""

    origin: str
    row: RowResult
    metric: str
    best_mean: str | None  #: text of the best mean of the column

    @property
    def result(self) -> CellResult:
        """The cell of the statistics."""
        return self.row.cells[self.metric]

    @property
    def digits(self) -> int:
        """Decimal places of a mean."""
        return int(column_info(self.metric).digits)

    def scaled(self, value: float | None) -> float | None:
        """Return a number of the statistics on the scale of tables: 57, not 56.99999999999999."""
        return None if value is None else round(column_info(self.metric).scale * value, 9)

    @property
    def mean(self) -> float | None:
        """The mean over runs."""
        return self.scaled(self.result.mean)

    @property
    def best(self) -> bool:
        """Whether it is the best of the rows that were run, or rounds to it."""
        run = self.origin in ("rows", "selected") and self.mean is not None
        return run and number_text(self.mean, self.digits) == self.best_mean

    @property
    def difference(self) -> float | None:
        """The difference to the baseline row."""
        comparison = self.result.comparison
        return self.scaled(comparison.difference) if comparison else None

    @property
    def mark(self) -> int:
        """1 or -1 where it is significantly better or worse than the baseline."""
        return self.result.comparison.mark if self.result.comparison else 0

    def p_holm(self, unit: str) -> float | None:
        """Return Holm's p of the test over a unit."""
        comparison = self.result.comparison
        return comparison.tests[unit].p_holm if isinstance(comparison, Comparison) else None

    @property
    def mean_reason(self) -> str:
        """Why it has no mean, or one of fewer runs."""
        name = heading(self.metric)
        reason = plain(self.result.reason or "")
        if self.origin in PRINTED:
            return ""
        if self.result.mean is None:
            return f"{name} was not run: {reason}."
        return f"Not all seeds have {name}: {reason}." if reason else ""

    @property
    def comparison_reason(self) -> str:
        """Why it is not compared with the baseline row."""
        comparison = self.result.comparison
        if not isinstance(comparison, NoComparison):
            return ""
        if self.result.mean is None:
            return self.mean_reason
        return f"No comparison: {plain(comparison.reason)}."

    def test_reason(self, unit: str) -> str:
        """Return why the test over a unit has no p."""
        comparison = self.result.comparison
        if isinstance(comparison, Comparison):
            test = comparison.tests[unit]
            return f"No test: {plain(test.reason or '')}." if test.p_holm is None else ""
        return self.comparison_reason

    @property
    def doubt(self) -> str:
        """What is doubtful about the printed number."""
        return _doubt(self.row, self.metric, heading(self.metric))

    @property
    def printed_p(self) -> float | None:
        """The p that the paper prints."""
        return self.row.printed_p.get(self.metric)

    @property
    def printed_p_note(self) -> str:
        """The tests that give the printed p for the printed gain at a usual spread."""
        units = self.row.p_explained_by.get(self.metric)
        if units is None:
            return ""
        if not units:
            return (
                f"No t-test over {', '.join(P_UNITS.values())} explains this printed p: each needs "
                "an unusual spread."
            )
        tests = " or over ".join(P_UNITS[unit] for unit in units)
        return f"A t-test over {tests} explains this printed p: it gives it at a usual spread."


def _doubt(row: RowResult, key: str, what: str) -> str:
    return f"Doubt about the printed {what}: {ended(row.doubt[key])}" if key in row.doubt else ""


@dataclass(frozen=True)
class FrameRow:
    """One row with its origin, and the one reason why it has no number of ours."""

    origin: str  #: the list of the statistics: quoted, not_run, rows, selected or outside
    result: RowResult
    not_run: str
    cells: list[FrameCell]

    @property
    def printed(self) -> bool:
        """Whether the paper's numbers alone are shown."""
        return self.origin in PRINTED

    @property
    def label(self) -> str:
        """The label on one line."""
        return plain(self.result.label)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is doubtful about all printed numbers of the row, and its own note."""
        note = self.result.note
        return _doubt(self.result, WHOLE_ROW, "row"), ended(note) if note else ""


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
            records.append([csv_value(line.get(name)) for name in shown])
        return csv_text(records)


def table_frame(table: Table, statistics: TableResult) -> Frame:
    """Return the frame of a table from what :func:`recap.statistics.compare.compare_table` made."""
    by_origin = {
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
    rows = []
    for origin, results in by_origin.items():
        for row in results:
            not_run = reasons.get(row.id, "") if origin in PRINTED else _not_run(row)
            cells = [FrameCell(origin, row, column, best[column]) for column in table.columns]
            rows.append(FrameRow(origin, row, not_run, cells))
    return Frame(table, statistics, rows)


def _of_print(row: QuotedRow | NotRunRow, table: Table) -> RowResult:
    """Return a row of which only the paper's numbers are known."""
    cells = {
        column: CellResult(printed_percent=row.printed.get(column)) for column in table.columns
    }
    return RowResult.of(row, cells)


def _not_run(row: RowResult) -> str:
    """Return why a row has no number of ours at all, where that is one reason."""
    reasons = {cell.reason if cell.mean is None else None for cell in row.cells.values()}
    return reasons.pop() or "" if len(reasons) == 1 else ""


def _best(rows: list[RowResult], column: str) -> str | None:
    """Return the best mean of a column as text,
    where two rows or more have one, of two runs or more."""
    info = column_info(column)
    cells = [row.cells[column] for row in rows]
    means = [cell.mean for cell in cells if cell.mean is not None]
    single = any(cell.n == 1 for cell in cells)
    if column in RUN_COLUMNS or len(means) < 2 or single:
        return None
    best = max(means) if info.higher_is_better else min(means)
    return number_text(round(info.scale * best, 9), info.digits)


def minus_quoted(row: RowResult, column: str, printed: float | None) -> float | None:
    """Return the difference of a row of ours to a quoted number.

    None where its data or settings are others.
    """
    mean = row.cells[column].mean
    if not row.as_printed or mean is None or printed is None:
        return None
    return round(column_info(column).scale * mean - printed, 9)


def from_outside(row: RowResult) -> str:
    """Return what a row is called that is not trained here."""
    return "released weights" if row.released else "captions from outside"


def _csv_line(statistics: TableResult, row: FrameRow, cell: FrameCell) -> dict[str, Value]:
    """Return a line of the CSV: of a quoted row also with the differences of ours to it."""
    result = row.result
    number = cell.result
    comparison = number.comparison
    line: dict[str, Value] = {
        "table": statistics.table,
        "scale": None,
        "id": result.id,
        "label": row.label,
        "part": row.origin,
        "dataset": result.dataset,
        "subset": result.subset,
        "features": result.features,
        "model": result.model,
        "recipe": result.recipe,
        "stage": result.stage,
        "metric": cell.metric,
        "mean": cell.mean,
        "sd": cell.scaled(number.sd),
        "n": None,
        "seeds": " ".join(number.values) or None,
        "values": " ".join(repr(cell.scaled(each)) for each in number.values.values()) or None,
        "best": int(cell.best),
        "source": number.source,
        "printed": number.printed_percent,
        "printed_sd": number.printed_sd_percent,
        "difference_to_printed": number.difference_to_printed_percent,
        "baseline": None,
        "difference": cell.difference,
        "mark": comparison.mark if comparison else None,
        "images": None,
    }
    for key, names in _OF_TESTS.items():
        test = getattr(comparison, key, None)
        for name in names:
            value = getattr(test, name, None)
            line[f"{key}_{name}"] = cell.scaled(value) if name in _SCALED else value
    line["printed_p"] = cell.printed_p
    line["doubt"] = cell.doubt or row.notes[0] or None
    line["reason"] = _reasons(row, number)
    line["signature"] = None
    if not row.printed:
        line["scale"] = "paper" if result.as_printed else "other"
        line["n"] = number.n
        line["baseline"] = statistics.baseline
        line["images"] = statistics.images
        line["signature"] = " ; ".join(sorted(set(result.signatures.values())))
    if row.origin == "quoted":
        for each in statistics.rows:
            line[f"difference_of_{each.id}"] = minus_quoted(
                each, cell.metric, number.printed_percent
            )
    return line


def _reasons(row: FrameRow, cell: CellResult) -> str | None:
    """Return for the CSV why numbers are missing, and where an untrained row is from."""
    reasons: list[str | None] = []
    if row.origin == "outside":
        reasons.append(f"{from_outside(row.result)}: {row.result.captions}")
    elif row.origin == "not_run":
        reasons.append(f"own, not run: {row.not_run}")
    elif row.origin == "quoted":
        reasons.append("printed in the paper, not run")
    reasons.append(cell.reason)
    if cell.comparison:
        reasons.append(cell.comparison.reason)
    if isinstance(cell.comparison, Comparison):
        reasons += [test.reason for test in cell.comparison.tests.values()]
    return "; ".join(dict.fromkeys(filter(None, reasons))) or None
