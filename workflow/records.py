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
FOLDER = Path(".snakemake/metadata")


def read_record(file: str) -> dict[str, Any]:
    """Return Snakemake's record of a file, by its path as in the rule; {} if there is none of the known format."""
    try:
        record = json.loads(record_path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and record.get("record_format_version") == FORMAT else {}


def write_record(file: str, record: dict[str, Any]) -> None:
    """Write a record as Snakemake does."""
    path = record_path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record), encoding="utf-8")


def record_path(file: str) -> Path:
    """Return where the record of a file is: its path in base 64, in pieces as long as a file's name may be."""
    name = base64.urlsafe_b64encode(file.encode()).decode()
    length = os.pathconf(".", "PC_NAME_MAX") - 1
    pieces = [name[start : start + length] for start in range(0, len(name), length)]
    return FOLDER.joinpath(*(f"@{piece}" for piece in pieces[:-1]), pieces[-1])
