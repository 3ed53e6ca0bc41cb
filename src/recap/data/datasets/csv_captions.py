"""Reads captions from a CSV: one caption a row, in the columns file, split and caption.

Other columns are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator

from recap.core.errors import DataError
from recap.core.hashing import derived_seed, sha256_file
from recap.data.corpus import Caption
from recap.data.datasets.base import Built, check_pictures
from recap.data.files.entries import Entry, Text, csv_entries, csv_rows
from recap.data.files.images import ImageSource
from recap.data.tokenizer import tokenize
from recap.settings.datasets import CsvDataset, Shares


class Row(Entry):
    """A row without a split, which is drawn."""

    # ./a.jpg is a.jpg: under two names one picture could be in two splits.
    file: Annotated[Text, AfterValidator(lambda file: str(PurePosixPath(file)))]
    caption: str


class SplitRow(Row):
    """A row that says its split."""

    split: Literal["train", "val", "test"]


def build(spec: CsvDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """Read a data set as its settings say; arguments and errors as
    :class:`recap.data.datasets.base.Reader`.

    The file is read twice, so that memory holds the names of the images but not their captions.
    Image ids number the sorted file names, so neither they nor a random split depend on the order
    of the rows.
    """
    path = inputs / spec.captions
    splits = read_splits(path, spec.split)
    ids = {file: number for number, file in enumerate(sorted(splits))}
    check_pictures(ids, ImageSource([inputs / images for images in spec.images]), path)
    return Built(_captions(path, splits, ids), sha256_file(path))


def read_splits(path: Path, shares: Shares | None) -> dict[str, str]:
    """Return the split of each file; with ``shares``, of a random split."""
    if shares is not None:
        if "split" in next(csv_rows(path))[1]:
            raise DataError(
                f"{path}: line 1: there is a column 'split', but the settings draw a random split; "
                "remove the column, or the key `split`"
            )
        return draw({row.file for _, row in csv_entries(path, Row)}, shares)
    splits: dict[str, str] = {}
    for where, row in csv_entries(path, SplitRow):
        if splits.setdefault(row.file, row.split) != row.split:
            raise DataError(
                f"{where}: {row.file} is in the split {row.split!r}, and in {splits[row.file]!r} "
                "above; give each image one split"
            )
    return splits


def draw(files: Iterable[str], shares: Shares) -> dict[str, str]:
    """Return a random split of files, by a hash of seed and name: a new file moves few others."""
    ordered = sorted(files, key=lambda file: (derived_seed(shares.seed, "split", file), file))
    train = round(len(ordered) * shares.train)
    val = round(len(ordered) * (shares.train + shares.val))
    splits = dict.fromkeys(ordered[:train], "train")
    splits |= dict.fromkeys(ordered[train:val], "val")
    splits |= dict.fromkeys(ordered[val:], "test")
    return splits


def _captions(path: Path, splits: Mapping[str, str], ids: Mapping[str, int]) -> Iterator[Caption]:
    """Yield the captions of all rows, numbered from 0."""
    for number, (_, row) in enumerate(csv_entries(path, Row)):
        words = tokenize(row.caption)
        yield Caption(ids[row.file], row.file, splits[row.file], number, row.caption, words)
