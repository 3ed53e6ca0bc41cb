"""Hashes of files, of values and of our own source: what a result was made from."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent.parent


def sha256_file(path: str | Path) -> str:
    """Return the sha256 of a file's bytes, read in pieces."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def value_hash(value: Any) -> str:
    """Return 16 hex digits of the sha256 of ``value`` as canonical JSON; equal on every Python version."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def source_digest(*rooms: str) -> str:
    """Return a digest of the Python source of the named rooms or files of the package (``models``, ``data/text``).

    Snakemake sees only its own rules; rules pass this as a parameter so that a changed layer retrains what uses it.
    """
    digest = hashlib.sha256()
    for room in sorted(rooms):
        path = _PACKAGE / room
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
        for file in files:
            digest.update(file.relative_to(_PACKAGE).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]
