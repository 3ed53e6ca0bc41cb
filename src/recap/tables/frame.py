"""The one model of a result table: a frame with a line for each row and column, on the scale of tables.

Every number, mark and reason that a format shows is computed here or in the statistics, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recap.core.errors import RecapError
from recap.core.files import cell as csv_cell
from recap.core.files import csv_text
from recap.settings import Table
from recap.settings.tables import P_UNITS, RUN_COLUMNS, WHOLE_ROW, column_info, heading
from recap.statistics.comparison import MOST, UNITS
from recap.tables.text import ended, number_text, plain

if TYPE_CHECKING:
    from pandas import DataFrame

PRINTED = ("quoted", "not_run")  # parts of which the paper's numbers alone are shown
OURS = ("rows", "selected", "outside")  # parts with numbers of ours
_PAIRED = ("mean_difference", "low", "high", "t", "p", "p_holm", "d_z", "p_wilcoxon", "p_wilcoxon_holm")
_WELCH = ("t", "degrees", "p", "p_holm")  # and of the joint test
_SETTINGS = ("dataset", "subset", "features", "model", "recipe", "stage")
# Columns of the CSV: these, the tests, and those of the second list that say anything.
_OF_OURS = ("mean", "sd", "n", "seeds", "values", "best", "source")
_COMPARED = ("printed", "printed_sd", "difference_to_printed", "baseline", "difference", "mark", "images")
_IN_CSV = ("scale", "id", "label", "part", *_SETTINGS, "metric", *_OF_OURS, *_COMPARED)
_WHERE_ANY = ("seeds_for_printed", "printed_p", "doubt", "reason", "signature")


@dataclass(frozen=True)
class Frame:
    """A table: the frame of its cells, the statistics that they are from, and the table's settings.

    ``cells`` has a line for each row and column. ``part`` is where a row stands: `quoted` or `not_run` (the paper's
    numbers alone), `rows`, `selected` or `outside`. Numbers are those of the statistics on the scale of tables;
    ``best`` and ``mark`` say what is bold and what has a dagger; ``missing``, ``doubt``, ``no_difference``, ``p_fits``
    and ``no_p_<unit>`` are sentences for footnotes.
    """

    table: Table
    statistics: Mapping[str, Any]
    cells: DataFrame

    def rows(self, *parts: str) -> Iterator[list[dict[str, Any]]]:
        """Yield the cells of each row of some parts, in the order of the table."""
        for part in parts:
            chosen = self.cells[self.cells.part == part]
            for _, cells in chosen.groupby("id", sort=False):
                yield cells.to_dict("records")

    def csv(self) -> str:
        """Return all numbers: one line per row and column."""
        tests = [name for name in self.cells if name.startswith(("paired_", "welch_", "joint_"))]
        quoted = [name for name in self.cells if name.startswith("difference_of_") and self.cells[name].notna().any()]
        lines = self.cells[self.cells.part.isin(OURS) | self.cells.printed.notna()]
        doubt = lines.doubt.where(lines.doubt.notna(), lines.row_doubt)
        lines = lines.assign(table=self.statistics["table"], doubt=doubt, best=lines.best.astype(int))
        some = [name for name in _WHERE_ANY if lines[name].notna().any()]
        lines = lines[["table", *_IN_CSV, *tests, *some, *quoted]]
        return csv_text([lines.columns, *([csv_cell(value) for value in line] for line in lines.to_numpy().tolist())])


def table_frame(table: Table, statistics: Mapping[str, Any]) -> Frame:
    """Return the frame of a table from what :func:`recap.statistics.compare.compare_table` made."""
    import pandas as pd

    _check(table, statistics)
    rows = [(part, row) for part in (*PRINTED, *OURS) for row in statistics.get(part, [])]
    records = [_record(part, row, column, statistics) for part, row in rows for column in statistics["columns"]]
    cells = pd.DataFrame(records, dtype=object)
    cells = cells.where(cells.notna(), None)
    cells["best"] = False
    for column in statistics["columns"]:
        _mark_best(cells, column)
    return Frame(table, statistics, cells)


def _check(table: Table, statistics: Mapping[str, Any]) -> None:
    """Refuse statistics that were made for other rows, columns or another baseline."""
    ids = [each.id for rows in (table.rows, table.selections, table.outside) for each in rows]
    made = [row["id"] for part in OURS for row in statistics.get(part, [])]
    expected = (ids, list(table.columns), table.baseline)
    if expected != (made, statistics["columns"], statistics["baseline"]):
        raise RecapError(
            f"the statistics of table {statistics['table']!r} were made for other rows or columns; delete the "
            "statistics and run the workflow again"
        )


def _record(part: str, row: Mapping[str, Any], column: str, statistics: Mapping[str, Any]) -> dict[str, Any]:
    """Return one line of the frame."""
    info, name = column_info(column), heading(column)

    def scaled(value: float | None) -> float | None:
        return None if value is None else round(info.scale * value, 9)  # 57, not 56.99999999999999

    cell = row["cells"][column] if part in OURS else {}
    comparison = cell.get("comparison") or {}
    tests = {unit: comparison.get(key) or {} for unit, key in UNITS.items()}
    printed = cell.get("printed_percent") if cell else row["printed"].get(column)
    mean, reason = cell.get("mean"), cell.get("reason")
    doubt, whole = row["doubt"].get(column), row["doubt"].get(WHOLE_ROW)
    missing = why = ""
    if part in OURS and mean is None:
        missing = f"{name} was not run: {plain(reason or '')}."
    elif reason:
        missing = f"Not all seeds have {name}: {plain(reason)}."
    if comparison and comparison["difference"] is None:
        why = missing if mean is None else f"No comparison: {plain(comparison['reason'])}."
    seeds = comparison.get("seeds_for_printed") or {}
    record = {
        "part": part,
        "id": row["id"],
        "label": plain(row["label"]),
        **{key: row.get(key) for key in _SETTINGS},
        "scale": ("paper" if row["as_printed"] else "other") if part in OURS else None,
        "metric": column,
        "mean": scaled(mean),
        "sd": scaled(cell.get("sd")),
        "n": cell.get("n"),
        "seeds": " ".join(cell.get("values", {})) or None,
        "values": " ".join(repr(scaled(value)) for value in cell.get("values", {}).values()) or None,
        "source": cell.get("source"),
        "printed": printed,
        "printed_sd": cell.get("printed_sd_percent"),
        "printed_p": row["printed_p"].get(column),
        "difference_to_printed": cell.get("difference_to_printed_percent"),
        "baseline": statistics["baseline"] if part in OURS else None,
        "difference": scaled(comparison.get("difference")),
        "mark": comparison.get("mark"),
        "images": statistics["images"] if part in OURS else None,
        "seeds_for_printed": str(seeds["seeds"] or f">{MOST}") if seeds.get("difference") else None,
        "missing": missing or None,
        "doubt": f"Doubt about the printed {name}: {ended(doubt)}" if doubt else None,
        "row_doubt": f"Doubt about the printed row: {ended(whole)}" if whole else None,
        "no_difference": why or None,
        "p_fits": _explained(row["p_fits"][column]) if column in row.get("p_fits", {}) else None,
        "note": ended(row["note"]) if row.get("note") else None,
        "captions": row.get("captions"),
        "released": row.get("released"),
        "not_run": _not_run(part, row, statistics["columns"]),
        "reason": _reasons(part, row, [cell, comparison, *tests.values()]),
        "signature": " ; ".join(sorted(set(row["signatures"].values()))) if part in OURS else None,
    }
    for unit, test in tests.items():
        p, no_test = test.get("p_holm"), None
        if comparison and p is None and statistics["family"]["made"]:
            no_test = f"No test: {plain(test['reason'])}." if test else why or f"No comparison: {comparison['reason']}."
        record |= {f"p_{unit}": p, f"no_p_{unit}": no_test}
    for key, names in {"paired": _PAIRED, "welch": _WELCH, "joint": _WELCH}.items():
        values = comparison.get(key) or {}
        for each in names:
            value = values.get(each)
            record[f"{key}_{each}"] = scaled(value) if each in ("mean_difference", "low", "high") else value
    for ours in statistics["rows"] if part == "quoted" else []:
        mean = ours["cells"][column]["mean"] if ours["as_printed"] else None  # other data or settings do not compare
        difference = None if mean is None or printed is None else round(info.scale * mean - printed, 9)
        record[f"difference_of_{ours['id']}"] = difference
    return record


def _not_run(part: str, row: Mapping[str, Any], columns: list[str]) -> str | None:
    """Return why a row has no number of ours at all, where that is one reason."""
    if part not in OURS:
        return row.get("reason")
    cells = [row["cells"][column] for column in columns]
    reasons = {cell["reason"] if cell["mean"] is None else None for cell in cells}
    return reasons.pop() if len(reasons) == 1 else None


def _reasons(part: str, row: Mapping[str, Any], tested: list[Mapping[str, Any]]) -> str | None:
    """Return, for the CSV, why numbers are missing, and where a row that is not trained here is from."""
    reasons = [each.get("reason") for each in tested]
    if part == "outside":
        reasons.insert(0, f"{from_outside(row)}: {row['captions']}")
    elif part in PRINTED:
        reasons.insert(0, f"own, not run: {row['reason']}" if "reason" in row else "printed in the paper, not run")
    return "; ".join(dict.fromkeys(filter(None, reasons))) or None


def _explained(units: list[str]) -> str:
    """Return which tests explain a printed p: those that need a usual spread to give it for the printed gain."""
    if not units:
        return f"No t-test over {', '.join(P_UNITS.values())} explains this printed p: each needs an unusual spread."
    tests = " or over ".join(P_UNITS[unit] for unit in units)
    return f"A t-test over {tests} explains this printed p: it gives it at a usual spread."


def from_outside(row: Mapping[str, Any]) -> str:
    """Return what a row is called that is not trained here."""
    return "released weights" if row.get("released") else "captions from outside"


def _mark_best(cells: DataFrame, column: str) -> None:
    """Mark the best mean of a column, and what rounds to it, where two rows or more have one, of two runs or more."""
    info = column_info(column)
    scored = cells[cells.part.isin(("rows", "selected")) & (cells.metric == column) & cells["mean"].notna()]
    rows = scored[scored.part == "rows"]
    if column in RUN_COLUMNS or len(rows) < 2 or (rows.n < 2).any():
        return
    best = rows["mean"].max() if info.higher_is_better else rows["mean"].min()
    shown = scored["mean"].map(lambda mean: number_text(mean, info.digits))
    cells.loc[scored.index[shown == number_text(best, info.digits)], "best"] = True
