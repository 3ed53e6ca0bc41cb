"""The TSVs of Conceptual Captions: ``caption TAB url`` a line; an image's number is that of its line, from 0."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recap.core.errors import DamagedData, DataError, MissingData


@dataclass(frozen=True, slots=True)
class Row:
    """One line."""

    number: int
    caption: str
    url: str


def read_tsv(path: Path) -> Iterator[Row]:
    """Yield the rows of a plain or gzipped TSV, one at a time."""
    if not path.is_file():
        raise MissingData(f"{path}: no such TSV; fetch it, or correct the path")
    number = -1
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines):
                yield _row(line, number, path)
    except (OSError, EOFError, zlib.error) as error:
        raise DamagedData(f"{path}: cannot be read after line {number + 1} ({error}); fetch it again") from error
    if number < 0:
        raise DataError(f"{path}: the TSV is empty; fetch it again")


def count_rows(path: Path) -> int:
    """Return the number of rows of a TSV; errors as of :func:`read_tsv`."""
    return sum(1 for _ in read_tsv(path))


def _row(line: bytes, number: int, path: Path) -> Row:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedData(f"{path}: line {number + 1}: not valid UTF-8 ({error}); fetch it again") from error
    parts = text.rstrip("\r\n").split("\t")
    caption, _, url = (part.strip() for part in text.partition("\t"))
    if not (caption and url) and not text.endswith("\n"):
        raise DamagedData(f"{path}: ends within line {number + 1}: the file is cut off; fetch it again")
    if len(parts) != 2:
        fields = "1 field" if len(parts) == 1 else f"{len(parts)} fields"
        raise DataError(f"{path}: line {number + 1}: {fields} where caption TAB url is expected; correct the line")
    if not caption or not url:
        raise DataError(f"{path}: line {number + 1}: the {'url' if caption else 'caption'} is empty; correct the line")
    return Row(number, caption, url)
