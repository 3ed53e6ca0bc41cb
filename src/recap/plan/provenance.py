"""`.provenance.json`: how the finished files of a folder were made, and their hashes; it travels with them.

The workflow writes it (workflow/provenance.py) from what Snakemake knows, which stays behind in `.snakemake/` when
results are pushed and pulled. Here is only the form of the file, so that results can be verified without Snakemake.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recap.core.documents import read_json, write_json
from recap.core.errors import RecapError
from recap.core.hashing import value_hash

NAME = ".provenance.json"
FORMAT = 2  # 1 had no checksum


@dataclass(frozen=True)
class _Content:
    format: int
    files: dict[str, dict[str, Any]]
    checksum: str = ""


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what a folder's `.provenance.json` says, by file (from the root of the working copy); {} without one.

    Each entry has ``sha256``, ``inputs`` (their hashes by path), ``record`` (what Snakemake compares) and ``times``.
    """
    path = folder / NAME
    if not path.exists():
        return {}
    content = read_json(path, _Content)
    intact = content.format == 1 or (content.format == FORMAT and content.checksum == value_hash(content.files))
    if not intact or not all(isinstance(entry.get("sha256"), str) for entry in content.files.values()):
        raise RecapError(
            f"{path}: damaged, or not of format {FORMAT}; restore it, or delete it and have the files beside it rebuilt"
        )
    return content.files


def write(folder: Path, entries: dict[str, dict[str, Any]]) -> None:
    """Write entries as ``read`` returns them; equal entries leave the file as it is."""
    path = folder / NAME
    if entries == read(folder):
        return
    if entries:
        write_json(path, {"format": FORMAT, "checksum": value_hash(entries), "files": entries})
    else:
        path.unlink(missing_ok=True)
