"""CSV files, which people open with a spreadsheet."""

import csv
import io
from collections.abc import Iterable
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs a cell that begins so


def no_formula(text: str) -> str:
    """Return the text of a cell so that no spreadsheet takes it for a formula: after an apostrophe where it would."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def cell(value: Any) -> str:
    """Return a value for a CSV: empty for None, text that is no formula, numbers with all their digits."""
    if value is None:
        return ""
    return no_formula(value) if isinstance(value, str) else repr(value)


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as the text of a CSV, the same on every system."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
