"""Reads captions from a CSV: one caption a row, in the columns file, split and caption; other columns are ignored."""

from __future__ import annotations

import csv
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from recap.core.errors import DataError, MissingData, nearest
from recap.core.hashing import derived_seed, sha256_file
from recap.data.corpus.corpus_file import SPLITS, Caption, need_splits
from recap.data.datasets.base import Built, check_pictures
from recap.data.files.images import ImageSource
from recap.data.vocabulary.text import is_storable, tokenize
from recap.settings.datasets import CsvDataset, Shares

_SEPARATORS = ",;\t"  # Excel writes semicolons where a comma is the decimal point


class Row(NamedTuple):
    """One row; `line` is the number of its first line, and `split` is empty where the splits are drawn."""

    line: int
    file: str
    split: str
    caption: str


def build(spec: CsvDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """Read a data set as its settings say; arguments and errors as :class:`recap.data.datasets.base.Reader`.

    The file is read twice, so that memory holds the names of the images but not their captions. Image ids number the
    sorted file names, so neither they nor a random split depend on the order of the rows.
    """
    path = inputs / spec.captions
    splits = read_splits(path, spec.split)
    need_splits(set(splits.values()), str(path))
    ids = {file: number for number, file in enumerate(splits)}
    check_pictures(ids, ImageSource([inputs / images for images in spec.images]), path)
    rows = read_rows(path, drawn=spec.split is not None)
    return Built(_captions(path, rows, splits, ids), sha256_file(path))


def read_splits(path: Path, shares: Shares | None) -> dict[str, str]:
    """Return the split of each file, sorted by file."""
    splits: dict[str, str] = {}
    for row in read_rows(path, drawn=shares is not None):
        if splits.setdefault(row.file, row.split) != row.split:
            raise DataError(
                f"{path}: line {row.line}: {row.file} is in the split {row.split!r}, and in {splits[row.file]!r} "
                "above; give each image one split"
            )
    return dict(sorted(splits.items() if shares is None else draw(splits, shares).items()))


def draw(files: Iterable[str], shares: Shares) -> dict[str, str]:
    """Return a random split of files: sorted by a hash of seed and name, so a new file moves few of the others."""
    ordered = sorted(files, key=lambda file: (derived_seed(shares.seed, "split", file), file))
    train = round(len(ordered) * shares.train)
    val = round(len(ordered) * (shares.train + shares.val))
    bounds = {"train": slice(train), "val": slice(train, val), "test": slice(val, None)}
    return {file: split for split, part in bounds.items() for file in ordered[part]}


def read_rows(path: Path, *, drawn: bool) -> Iterator[Row]:
    """Yield the rows of a CSV in UTF-8, one at a time; rows without any text are left out.

    The separator is the one that the first line uses: a comma, a semicolon or a tab. Where splits are ``drawn``, there
    must be no column `split`.
    """
    if not path.is_file():
        raise MissingData(f"{path}: no such CSV file; correct the key 'captions' or the inputs folder")
    line = 1
    try:
        # A byte that is no UTF-8 becomes half of a surrogate pair, which `_row` refuses with the number of the line.
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
            header = lines.readline()
            separator = max(_SEPARATORS, key=header.count)
            names = _header(next(csv.reader([header], delimiter=separator, strict=True), []), path, drawn)
            rows = csv.reader(lines, delimiter=separator, strict=True)
            line = 2
            for values in rows:
                if any(value.strip() for value in values):
                    yield _row(values, names, path, line)
                line = rows.line_num + 2
    except (OSError, csv.Error) as error:
        raise DataError(
            f"{path}: line {line}: not a valid CSV row ({error}); put double quotes around a caption with a separator "
            "or a quote in it, and double each quote in it"
        ) from error


def _header(values: Sequence[str], path: Path, drawn: bool) -> list[str]:
    """Return the names of the columns."""
    names = [value.strip() for value in values]
    _check_text(names, path, 1)
    if drawn and "split" in names:
        raise DataError(
            f"{path}: line 1: there is a column 'split', but the settings draw a random split; "
            "remove the column, or the key `split`"
        )
    for name in ("file", "caption", *(() if drawn else ("split",))):
        if names.count(name) != 1:
            found = textwrap.shorten(", ".join(names), 100, placeholder=" ...") or "none"
            wrong = f"there are two columns {name!r}" if name in names else f"there is no column {name!r}"
            hint = "; or draw a random split with the key `split`" if name == "split" else ""
            raise DataError(f"{path}: line 1: {wrong}; it must name file, split and caption (found: {found}){hint}")
    return names


def _row(values: Sequence[str], names: Sequence[str], path: Path, line: int) -> Row:
    where = f"{path}: line {line}"
    if len(values) != len(names):
        raise DataError(
            f"{where}: {len(values)} columns where the first line has {len(names)}; "
            "put double quotes around a caption with a separator in it"
        )
    _check_text(values, path, line)
    found = dict(zip(names, values, strict=True))
    file, split = found["file"].strip(), found.get("split", "").strip()
    if not file:
        raise DataError(f"{where}: the file is empty; name the picture, or remove the line")
    if "split" in found and split not in SPLITS:
        raise DataError(f"{where}: no such split as {split[:40]!r}; {nearest(split[:40], SPLITS)}")
    # ./a.jpg is a.jpg: under two names one picture could be in two splits.
    return Row(line, str(PurePosixPath(file)), split, found["caption"].strip())


def _check_text(values: Sequence[str], path: Path, line: int) -> None:
    if not is_storable("".join(values)):
        raise DataError(f"{path}: line {line}: not UTF-8; save the file as UTF-8 (Excel: 'CSV UTF-8')")


def _captions(path: Path, rows: Iterable[Row], splits: Mapping[str, str], ids: Mapping[str, int]) -> Iterator[Caption]:
    """Yield the captions of all rows, numbered from 0."""
    for number, row in enumerate(rows):
        words = tokenize(row.caption)
        if not words:
            raise DataError(
                f"{path}: line {row.line}: the caption of {row.file} is empty or has no word in it; "
                "write one, or remove the line"
            )
        yield Caption(ids[row.file], row.file, splits[row.file], number, row.caption, words)
