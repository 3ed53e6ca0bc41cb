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
        return [cell for row in self.rows for cell in row["cells"]]

    def csv(self) -> str:
        """Return all numbers: one line per row and column."""
        lines = [cell for cell in self.cells if cell["part"] in OURS or cell["printed"] is not None]
        names = dict.fromkeys(name for name in chain.from_iterable(lines) if name != "notes")
        some = {name for line in lines for name, value in line.items() if value is not None}
        shown = [name for name in names if name in some or not name.startswith(_WHERE_ANY)]
        return csv_text([shown, *([csv_cell(line.get(name)) for name in shown] for line in lines)])


def table_frame(table: Table, statistics: Mapping[str, Any]) -> Frame:
    """Return the frame of a table from what :func:`recap.statistics.compare.compare_table` made."""
    ids = [each.id for rows in (table.rows, table.selections, table.outside) for each in rows]
    made = [row["id"] for part in OURS for row in statistics.get(part, [])]
    expected = (ids, list(table.columns), table.baseline)
    if expected != (made, statistics["columns"], statistics["baseline"]):
        raise RecapError(
            f"the statistics of table {statistics['table']!r} were made for other rows or columns; "
            "delete the statistics and run the workflow again"
        )
    rows = [
        {
            **row,
            "part": part,
            "label": plain(row["label"]),
            "note": ended(row["note"]) if row.get("note") else "",
            "not_run": _not_run(part, row),
            "cells": [_cell(part, row, column, statistics) for column in table.columns],
        }
        for part in (*PRINTED, *OURS)
        for row in statistics.get(part, [])
    ]
    for place, column in enumerate(table.columns):
        _mark_best(
            [row["cells"][place] for row in rows if row["part"] in ("rows", "selected")], column
        )
    return Frame(table, statistics, rows)


def _cell(
    part: str, row: Mapping[str, Any], column: str, statistics: Mapping[str, Any]
) -> dict[str, Any]:
    """Return one column of one row."""
    info, ours = column_info(column), part in OURS

    def scaled(value: float | None) -> float | None:
        return None if value is None else round(info.scale * value, 9)  # 57, not 56.99999999999999

    cell = row["cells"][column] if ours else {"printed_percent": row["printed"].get(column)}
    comparison, values, printed = (
        cell.get("comparison") or {},
        cell.get("values", {}),
        cell["printed_percent"],
    )
    notes = _footnotes(row, column, cell, tested=bool(statistics["family"]["made"]))
    line = {
        "table": statistics["table"],
        "scale": ("paper" if row["as_printed"] else "other") if ours else None,
        "id": row["id"],
        "label": plain(row["label"]),
        "part": part,
        **{key: row.get(key) for key in _SETTINGS},
        "metric": column,
        "mean": scaled(cell.get("mean")),
        "sd": scaled(cell.get("sd")),
        "n": cell.get("n"),
        "seeds": " ".join(values) or None,
        "values": " ".join(repr(scaled(value)) for value in values.values()) or None,
        "best": 0,
        "source": cell.get("source"),
        "printed": printed,
        "printed_sd": cell.get("printed_sd_percent"),
        "difference_to_printed": cell.get("difference_to_printed_percent"),
        "baseline": statistics["baseline"] if ours else None,
        "difference": scaled(comparison.get("difference")),
        "mark": comparison.get("mark"),
        "images": statistics["images"] if ours else None,
    }
    for key, names in _TESTS.items():
        test = comparison.get(key) or {}
        line |= {
            f"{key}_{name}": scaled(test.get(name)) if name in _SCALED else test.get(name)
            for name in names
        }
    line |= {
        "printed_p": row["printed_p"].get(column),
        "doubt": notes.get("printed") or notes.get("row"),
        "reason": _reasons(
            part, row, [cell, comparison, *(comparison.get(key) or {} for key in _TESTS)]
        ),
        "signature": " ; ".join(sorted(set(row["signatures"].values()))) if ours else None,
        "notes": notes,
    }
    for other in statistics["rows"] if part == "quoted" else []:
        # other data or settings do not compare
        mean = other["cells"][column]["mean"] if other["as_printed"] else None
        difference = (
            None if mean is None or printed is None else round(info.scale * mean - printed, 9)
        )
        line[f"difference_of_{other['id']}"] = difference
    return line


def _footnotes(
    row: Mapping[str, Any], column: str, cell: Mapping[str, Any], *, tested: bool
) -> dict[str, str]:
    """Return why a cell lacks its mean, difference or p,
    and what is to say of the print: name of a value -> text."""
    name, reason, notes = heading(column), plain(cell.get("reason") or ""), dict[str, str]()
    not_run = "mean" in cell and cell["mean"] is None
    if reason or not_run:
        notes["mean"] = (
            f"{name} was not run: {reason}." if not_run else f"Not all seeds have {name}: {reason}."
        )
    if column in row["doubt"]:
        notes["printed"] = f"Doubt about the printed {name}: {ended(row['doubt'][column])}"
    if WHOLE_ROW in row["doubt"]:
        notes["row"] = f"Doubt about the printed row: {ended(row['doubt'][WHOLE_ROW])}"
    if column in row.get("p_fits", {}):
        notes["printed_p"] = _explained(row["p_fits"][column])
    if comparison := cell.get("comparison"):
        why = notes["mean"] if not_run else f"No comparison: {plain(comparison['reason'] or '')}."
        if comparison["difference"] is None:
            notes["difference"] = why
        for key in _TESTS if tested else []:
            test = comparison[key]
            if not test or test["p_holm"] is None:
                notes[f"{key}_p_holm"] = f"No test: {plain(test['reason'])}." if test else why
    return notes


def _not_run(part: str, row: Mapping[str, Any]) -> str | None:
    """Return why a row has no number of ours at all, where that is one reason."""
    if part not in OURS:
        return row.get("reason")
    reasons = {cell["reason"] if cell["mean"] is None else None for cell in row["cells"].values()}
    return reasons.pop() if len(reasons) == 1 else None


def _reasons(part: str, row: Mapping[str, Any], tested: list[Mapping[str, Any]]) -> str | None:
    """Return for the CSV why numbers are missing, and where an untrained row is from."""
    reasons = [each.get("reason") for each in tested]
    if part == "outside":
        reasons.insert(0, f"{from_outside(row)}: {row['captions']}")
    elif part in PRINTED:
        reasons.insert(
            0,
            f"own, not run: {row['reason']}"
            if "reason" in row
            else "printed in the paper, not run",
        )
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
