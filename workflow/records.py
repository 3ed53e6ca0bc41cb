"""Snakemake's records of finished files, as files: one JSON per output in `.snakemake/metadata`.

Snakemake has no command that gives a file's record or takes one, and its classes are private. The layout of the folder
is not documented either; the number in each record says whether it is the one that is known here.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

FORMAT = 6  # of the records that Snakemake 9.27 writes
SNAKEMAKE = Path(".snakemake")


def read_record(file: str) -> dict[str, Any]:
    """Return Snakemake's record of a file, by its path as in the rule; {} if there is none of the known format."""
    try:
        record = json.loads(_path("metadata", file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and record.get("record_format_version") == FORMAT else {}


def write_record(file: str, record: dict[str, Any]) -> None:
    """Write a record as Snakemake does, which ignores half a record of a power cut."""
    path = _path("metadata", file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record), encoding="utf-8")


def is_incomplete(file: str) -> bool:
    """Return whether the job that makes a file has begun and not finished."""
    return _path("incomplete", file).exists()


def _path(kind: str, file: str) -> Path:
    """Return where Snakemake notes something of a file: its path in base 64, in pieces as long as a name may be."""
    name = base64.urlsafe_b64encode(file.encode()).decode()
    length = os.pathconf(".", "PC_NAME_MAX") - 1
    pieces = [name[start : start + length] for start in range(0, len(name), length)]
    return SNAKEMAKE.joinpath(kind, *(f"@{piece}" for piece in pieces[:-1]), pieces[-1])
