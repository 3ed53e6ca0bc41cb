"""What a paper prints in a table, with its doubts: marks of footnotes, and the p-values as a line beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recap.reporting.text import Footnotes, plain
from recap.settings.tables import P_UNITS, WHOLE_ROW, heading

P_LINE = "p, printed"


def own_not_run_mark(reason: str, footnotes: Footnotes) -> str:
    """Return the mark of the footnote that says why a row of the paper's own was not run."""
    return footnotes.mark(f"Own, not run: {plain(reason).rstrip('.')}.")


def doubt_marks(doubt: Mapping[str, str], footnotes: Footnotes) -> dict[str, str]:
    """Return column, or `row`, -> mark of the footnote that says why its printed number is doubtful."""
    texts = {key: f"Doubt about the printed {'row' if key == WHOLE_ROW else heading(key)}" for key in doubt}
    return {key: footnotes.mark(f"{texts[key]}: {plain(text).rstrip('.')}.") for key, text in doubt.items()}


def note_mark(row: Mapping[str, Any], footnotes: Footnotes) -> str:
    """Return the mark of the footnote that says what a row's settings follow; empty where its table does not say it."""
    return footnotes.mark(f"{plain(row['note']).rstrip('.')}.") if row.get("note") else ""


def printed_p_entries(row: Mapping[str, Any], columns: Sequence[str], footnotes: Footnotes) -> list[tuple[str, str]]:
    """Return text and mark of the printed p of each column, both empty where none is printed; no list without any.

    The footnote of a mark says over which units a test can have that p.
    """
    if not row["printed_p"]:
        return []
    fits = row.get("p_fits", {})
    marks = {column: footnotes.mark(_explained(units)) for column, units in fits.items() if column in columns}
    texts = {column: f"{p:g}" for column, p in row["printed_p"].items()}
    return [(texts.get(column, ""), marks.get(column, "")) for column in columns]


def _explained(units: Sequence[str]) -> str:
    """Return which tests explain a printed p: those that need a usual spread to give it for the printed gain."""
    if not units:
        return f"No t-test over {', '.join(P_UNITS.values())} explains this printed p: each needs an unusual spread."
    tests = " or over ".join(P_UNITS[unit] for unit in units)
    return f"A t-test over {tests} explains this printed p: it gives it at a usual spread."
