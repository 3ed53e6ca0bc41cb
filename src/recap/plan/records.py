"""Small files beside results, read without Snakemake: their statistics, the last `inputs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.core.documents import read_json
from recap.core.errors import RecapError

# the folder of outside files that a profile's workflow last used: a hint on this machine
INPUTS = "inputs.txt"
_TABLE = {"table", "title", "scale", "baseline", "seeds", "columns", "rows"}
_ROW = {"id", "label", "dataset", "subset", "features", "model", "recipe", "stage", "cells"}


def read_tables(results: Path) -> list[dict[str, Any]]:
    """Return the statistics of all tables of a profile, from ``results/<profile>``."""
    tables = []
    for path in sorted((results / "statistics").glob("[!.]*.json")):
        table = read_json(path)
        if (
            not isinstance(table, dict)
            or _TABLE - set(table)
            or any(_ROW - set(row) for row in table["rows"])
        ):
            raise RecapError(
                f"{path}: not the statistics of a table; delete it and run the workflow again"
            )
        tables.append(table)
    return tables


def noted_inputs(results: Path) -> Path | None:
    """Return the folder that was noted for `results/<profile>`, or None."""
    root = results.absolute().parent.parent
    path = root / "work" / results.name / INPUTS
    return (
        root / path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
        if path.is_file()
        else None
    )
