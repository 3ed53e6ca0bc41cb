"""The statistics of a profile's tables, as the step `statistics` wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.core.documents import read_json
from recap.core.errors import RecapError

_TABLE = {"table", "title", "scale", "baseline", "seeds", "columns", "rows"}
_ROW = {"id", "label", "dataset", "subset", "features", "model", "recipe", "stage", "cells"}


def read_tables(results: Path) -> list[dict[str, Any]]:
    """Return the statistics of all tables of a profile.

    Args:
        results: the folder ``results/<profile>``.
    """
    found = []
    for path in sorted((results / "statistics").glob("[!.]*.json")):
        table = read_json(path)
        if not isinstance(table, dict) or _TABLE - set(table) or any(_ROW - set(row) for row in table["rows"]):
            raise RecapError(f"{path}: not the statistics of a table; delete it and run the workflow again")
        found.append(table)
    return found
