"""`.provenance.json`: how the finished files of a folder were made, and their hashes; it travels with them.

The workflow writes it (workflow/provenance.py) from what Snakemake knows, which stays behind in `.snakemake/` when
results are pushed and pulled. Here is only the form of the file, so that results can be verified without Snakemake.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.core.documents import read_json, write_json
from recap.core.errors import RecapError

NAME = ".provenance.json"
FORMAT = 1


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what a folder's `.provenance.json` says, by file (from the root of the working copy); {} without one.

    Each entry has ``sha256``, ``inputs`` (their hashes by path), ``record`` (what Snakemake compares) and ``times``.

    Raises:
        RecapError: the file is damaged, or of a later version.
    """
    path = folder / NAME
    if not path.exists():
        return {}
    value = read_json(path)
    files = value.get("files") if isinstance(value, dict) and value.get("format") == FORMAT else None
    if not isinstance(files, dict) or not all(
        isinstance(entry, dict) and isinstance(entry.get("sha256"), str) for entry in files.values()
    ):
        raise RecapError(
            f"{path}: not a file of format {FORMAT} as this version writes it; restore it, or delete it and have the "
            "files beside it rebuilt"
        )
    return files


def write(folder: Path, entries: dict[str, dict[str, Any]]) -> None:
    """Write entries as ``read`` returns them; equal entries leave the file as it is."""
    path = folder / NAME
    if entries == read(folder):
        return
    if entries:
        write_json(path, {"format": FORMAT, "files": entries})
    else:
        path.unlink(missing_ok=True)
