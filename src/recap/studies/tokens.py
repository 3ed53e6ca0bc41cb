"""Links of raters: each form has an address with a secret token, which whoever runs the study hands out."""

from __future__ import annotations

import csv
import hashlib
import re
import secrets
from pathlib import Path

from recap.core.errors import DataError
from recap.core.files.atomic import write_text
from recap.core.files.spreadsheet import csv_text
from recap.studies.sheets import Sheets

_BYTES = 16  # of randomness in a token
_TOKEN = re.compile(r"[A-Za-z0-9_-]{22,}")  # so many characters have as many


def links(sheets: Sheets, path: Path, address: str) -> dict[str, str]:
    """Return token -> sheet; tokens are drawn once and kept in a CSV with the links, which only its owner may read.

    Raises:
        DataError: the file is of another study, or damaged.
    """
    known = _read(path) if path.exists() else {sheet.id: secrets.token_urlsafe(_BYTES) for sheet in sheets.sheets}
    if set(known) != set(sheets.by_id) or len(set(known.values())) != len(known):
        raise DataError(f"{path}: its links are of another study; remove it, or name another file with --links")
    if not all(_TOKEN.fullmatch(token or "") for token in known.values()):
        raise DataError(f"{path}: holds a damaged token; remove it, and new links are made")
    rows = ([sheet, token, f"{address}/{token}"] for sheet, token in known.items())
    write_text(path, csv_text([["sheet", "token", "link"], *rows]))
    path.chmod(0o600)
    return {token: sheet for sheet, token in known.items()}


def _read(path: Path) -> dict[str, str]:
    """Return sheet -> token."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return {line["sheet"]: line["token"] for line in csv.DictReader(file)}
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError) as error:
        raise DataError(f"{path}: holds no links of raters ({error}); remove it, and new ones are made") from error


def hashed(token: str) -> str:
    """Return what tokens are compared by, so that the time of a comparison tells nothing about a token."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
