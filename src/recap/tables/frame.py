"""The one model of a result table: its rows with a cell for each column, on the scale of tables.

Every number, mark and reason that a format shows is computed here or in the statistics, and nowhere
else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from recap.core.errors import RecapError
from recap.core.files import cell as csv_cell
from recap.core.files import csv_text
from recap.settings import Table
from recap.settings.tables import P_UNITS, RUN_COLUMNS, WHOLE_ROW, column_info, heading
from recap.tables.text import ended, number_text, plain

PRINTED = ("quoted", "not_run")  # parts of which the paper's numbers alone are shown
OURS = ("rows", "selected", "outside")  # parts with numbers of ours
_SETTINGS = ("dataset", "subset", "features", "model", "recipe", "stage")
_SCALED = ("mean_difference", "low", "high")
_WELCH = ("t", "degrees", "p", "p_holm")  # and of the joint test
_TESTS = {
    "paired": (*_SCALED, "t", "p", "p_holm", "d_z", "p_wilcoxon", "p_wilcoxon_holm"),
    "welch": _WELCH,
    "joint": _WELCH,
}
# Columns of the CSV; a table with quoted rows has one more for each row of ours.
_COLUMNS = (
    *("table", "scale", "id", "label", "part", *_SETTINGS),
    *("metric", "mean", "sd", "n", "seeds", "values", "best", "source"),
    *("printed", "printed_sd", "difference_to_printed", "baseline", "difference", "mark", "images"),
    *(f"paired_{name}" for name in _TESTS["paired"]),
    *(f"welch_{name}" for name in _TESTS["welch"]),
    *(f"joint_{name}" for name in _TESTS["joint"]),
    *("printed_p", "doubt", "reason", "signature"),
)
# Columns that the CSV has only where they say anything.
_WHERE_ANY = ("printed_p", "doubt", "reason", "signature", "difference_of_")


@dataclass(frozen=True)
class Frame:
    """A table: its settings, the statistics that it is from, and its rows.

    A row is that of the statistics with its ``part`` of the table (`PRINTED` or `OURS`), with
    ``not_run``, the one reason why it has no number of ours, and with ``cells``: for each column a
    line of the CSV, and in ``notes`` the footnotes of its values by their names.
    """

    table: Table
    statistics: Mapping[str, Any]
    rows: list[dict[str, Any]]

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The cells of all rows."""
        return list(chain.from_iterable(row["cells"] for row in self.rows))

    def csv(self) -> str:
        """Return all numbers: one line per row and column."""
        lines = [cell for cell in self.cells if cell["part"] in OURS or cell["printed"] is not None]
        names: dict[str, bool] = {}  # of columns -> whether one line has a value
        for line in lines:
            for name, value in line.items():
                names[name] = names.get(name, False) or value is not None
        del names["notes"]
        shown = [name for name, some in names.items() if some or not name.startswith(_WHERE_ANY)]
        records: list[list[Any]] = [shown]
        for line in lines:
            records.append([csv_cell(line.get(name)) for name in shown])
        return csv_text(records)


def table_frame(table: Table, statistics: Mapping[str, Any]) -> Frame:
    """Return the frame of a table from what :func:`recap.statistics.compare.compare_table` made."""
    parts = [(part, statistics.get(part, [])) for part in (*PRINTED, *OURS)]
    ids = [each.id for each in (*table.rows, *table.selections, *table.outside)]
    made = []
    for part, of_part in parts:
        if part in OURS:
            made += [row["id"] for row in of_part]
    expected = (ids, list(table.columns), table.baseline)
    if expected != (made, statistics["columns"], statistics["baseline"]):
        raise RecapError(
            f"the statistics of table {statistics['table']!r} were made for other rows or columns; "
            "delete the statistics and run the workflow again"
        )
    rows = []
    for part, of_part in parts:
        rows += [_row(part, row, table, statistics) for row in of_part]
    for place, column in enumerate(table.columns):
        _mark_best(
            [row["cells"][place] for row in rows if row["part"] in ("rows", "selected")], column
        )
    return Frame(table, statistics, rows)


def _row(
    part: str, row: Mapping[str, Any], table: Table, statistics: Mapping[str, Any]
) -> dict[str, Any]:
    """Return one row of the statistics with its cells."""
    return {
        **row,
        "part": part,
        "label": plain(row["label"]),
        "note": ended(row["note"]) if row.get("note") else "",
        "not_run": _not_run(part, row),
        "cells": [_cell(part, row, column, statistics) for column in table.columns],
    }


def _cell(
    part: str, row: Mapping[str, Any], column: str, statistics: Mapping[str, Any]
) -> dict[str, Any]:
    """Return one column of one row."""
    line: dict[str, Any] = dict.fromkeys(_COLUMNS)
    line |= {"table": statistics["table"], "id": row["id"], "label": plain(row["label"])}
    line |= {"part": part, "metric": column, "best": 0}
    line |= {key: row.get(key) for key in _SETTINGS}
    if part in OURS:
        cell = row["cells"][column]
        line |= _ours(row, cell, statistics, column_info(column).scale)
    else:
        cell = {"printed_percent": row["printed"].get(column)}
    notes = _footnotes(row, column, cell, tested=bool(statistics["family"]["made"]))
    line |= {
        "printed": cell["printed_percent"],
        "printed_p": row["printed_p"].get(column),
        "doubt": notes.get("printed") or notes.get("row"),
        "reason": _reasons(part, row, cell),
        "notes": notes,
    }
    return line | (_differences(line, statistics) if part == "quoted" else {})


def _ours(
    row: Mapping[str, Any], cell: Mapping[str, Any], statistics: Mapping[str, Any], scale: float
) -> dict[str, Any]:
    """Return what a cell has of our numbers, and of their tests against the baseline row."""
    values = cell.get("values", {})
    comparison = cell.get("comparison") or {}
    line = {
        "scale": "paper" if row["as_printed"] else "other",
        "mean": _scaled(cell["mean"], scale),
        "sd": _scaled(cell.get("sd"), scale),
        "n": cell["n"],
        "seeds": " ".join(values) or None,
        "values": " ".join(repr(_scaled(value, scale)) for value in values.values()) or None,
        "source": cell.get("source"),
        "printed_sd": cell.get("printed_sd_percent"),
        "difference_to_printed": cell.get("difference_to_printed_percent"),
        "baseline": statistics["baseline"],
        "difference": _scaled(comparison.get("difference"), scale),
        "mark": comparison.get("mark"),
        "images": statistics["images"],
        "signature": " ; ".join(sorted(set(row["signatures"].values()))),
    }
    for key, names in _TESTS.items():
        test = comparison.get(key) or {}
        for name in names:
            value = test.get(name)
            line[f"{key}_{name}"] = _scaled(value, scale) if name in _SCALED else value
    return line


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else round(scale * value, 9)  # 57, not 56.99999999999999


def _differences(line: Mapping[str, Any], statistics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the differences of our rows to a quoted number; other data or settings have none."""
    scale, differences = column_info(line["metric"]).scale, {}
    for row in statistics["rows"]:
        mean, difference = row["cells"][line["metric"]]["mean"], None
        if row["as_printed"] and mean is not None and line["printed"] is not None:
            difference = round(scale * mean - line["printed"], 9)
        differences[f"difference_of_{row['id']}"] = difference
    return differences


def _footnotes(
    row: Mapping[str, Any], column: str, cell: Mapping[str, Any], *, tested: bool
) -> dict[str, str]:
    """Return why a cell lacks its mean, difference or p,
    and what is to say of the print: name of a value -> text."""
    name, reason, notes = heading(column), plain(cell.get("reason") or ""), dict[str, str]()
    if "mean" in cell and cell["mean"] is None:
        notes["mean"] = f"{name} was not run: {reason}."
    elif reason:
        notes["mean"] = f"Not all seeds have {name}: {reason}."
    if column in row["doubt"]:
        notes["printed"] = f"Doubt about the printed {name}: {ended(row['doubt'][column])}"
    if WHOLE_ROW in row["doubt"]:
        notes["row"] = f"Doubt about the printed row: {ended(row['doubt'][WHOLE_ROW])}"
    if column in row.get("p_fits", {}):
        notes["printed_p"] = _explained(row["p_fits"][column])
    if cell.get("comparison"):
        notes |= _without_test(cell, notes.get("mean", ""), tested=tested)
    return notes


def _without_test(cell: Mapping[str, Any], not_run: str, *, tested: bool) -> dict[str, str]:
    """Return why a comparison lacks its difference or a p."""
    comparison, why, notes = cell["comparison"], not_run, dict[str, str]()
    if cell["mean"] is not None:
        why = f"No comparison: {plain(comparison['reason'] or '')}."
    if comparison["difference"] is None:
        notes["difference"] = why
    for key in _TESTS if tested else []:
        test = comparison[key]
        if not test:
            notes[f"{key}_p_holm"] = why
        elif test["p_holm"] is None:
            notes[f"{key}_p_holm"] = f"No test: {plain(test['reason'])}."
    return notes


def _not_run(part: str, row: Mapping[str, Any]) -> str | None:
    """Return why a row has no number of ours at all, where that is one reason."""
    if part not in OURS:
        return row.get("reason")
    reasons = {cell["reason"] if cell["mean"] is None else None for cell in row["cells"].values()}
    return reasons.pop() if len(reasons) == 1 else None


def _reasons(part: str, row: Mapping[str, Any], cell: Mapping[str, Any]) -> str | None:
    """Return for the CSV why numbers are missing, and where an untrained row is from."""
    reasons: list[str | None] = []
    if part == "outside":
        reasons.append(f"{from_outside(row)}: {row['captions']}")
    elif part in PRINTED and "reason" in row:
        reasons.append(f"own, not run: {row['reason']}")
    elif part in PRINTED:
        reasons.append("printed in the paper, not run")
    comparison = cell.get("comparison") or {}
    for each in (cell, comparison, *(comparison.get(key) or {} for key in _TESTS)):
        reasons.append(each.get("reason"))
    return "; ".join(dict.fromkeys(filter(None, reasons))) or None


def _explained(units: list[str]) -> str:
    """Return the tests that give a printed p for the printed gain at a usual spread."""
    if not units:
        return (
            f"No t-test over {', '.join(P_UNITS.values())} explains this printed p: each needs an "
            "unusual spread."
        )
    tests = " or over ".join(P_UNITS[unit] for unit in units)
    return f"A t-test over {tests} explains this printed p: it gives it at a usual spread."


def from_outside(row: Mapping[str, Any]) -> str:
    """Return what a row is called that is not trained here."""
    return "released weights" if row.get("released") else "captions from outside"


def _mark_best(cells: list[dict[str, Any]], column: str) -> None:
    """Mark the best mean of a column, and what rounds to it,
    where two rows or more have one, of two runs or more."""
    info, scored = column_info(column), [cell for cell in cells if cell["mean"] is not None]
    rows = [cell for cell in scored if cell["part"] == "rows"]
    if column in RUN_COLUMNS or len(rows) < 2 or min(cell["n"] for cell in rows) < 2:
        return
    best = (max if info.higher_is_better else min)(cell["mean"] for cell in rows)
    for cell in scored:
        cell["best"] = int(number_text(cell["mean"], info.digits) == number_text(best, info.digits))
