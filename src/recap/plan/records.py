"""Records beside results, read without Snakemake: how made, statistics, last `inputs`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recap.core.documents import read_json, write_json
from recap.core.errors import RecapError
from recap.core.hashing import value_hash

# How the finished files of a folder were made, and their hashes. The workflow writes it
# (workflow/provenance.py) from what Snakemake knows, which stays behind in `.snakemake/` when
# results are pushed and pulled; this travels with them.
PROVENANCE = ".provenance.json"
# the folder of outside files that a profile's workflow last used: a hint on this machine
INPUTS = "inputs.txt"
_FORMAT = 2
_TABLE = {"table", "title", "scale", "baseline", "seeds", "columns", "rows"}
_ROW = {"id", "label", "dataset", "subset", "features", "model", "recipe", "stage", "cells"}


@dataclass(frozen=True)
class _Provenance:
    format: int
    files: dict[str, dict[str, Any]]
    checksum: str


def read_provenance(folder: Path) -> dict[str, dict[str, Any]]:
    """Return by file what a folder's `.provenance.json` says: sha256, inputs, record, times.

    {} without one.
    """
    path = folder / PROVENANCE
    if not path.exists():
        return {}
    content = read_json(path, _Provenance)
    intact = content.format == _FORMAT and content.checksum == value_hash(content.files)
    if not intact or not all(
        isinstance(entry.get("sha256"), str) for entry in content.files.values()
    ):
        wrong = f"{path}: damaged, or not of format {_FORMAT}"
        raise RecapError(f"{wrong}; restore it, or delete it and have the files beside it rebuilt")
    return content.files


def write_provenance(folder: Path, entries: dict[str, dict[str, Any]]) -> None:
    """Write entries as ``read_provenance`` returns them; equal entries leave the file as it is."""
    path = folder / PROVENANCE
    if entries == read_provenance(folder):
        return
    if entries:
        write_json(path, {"format": _FORMAT, "checksum": value_hash(entries), "files": entries})
    else:
        path.unlink(missing_ok=True)


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
