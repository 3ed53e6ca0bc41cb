"""Writes corpus files row group by row group, so that millions of captions pass through little memory."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recap.core.errors import DataError, nearest
from recap.core.files import atomic_path
from recap.core.log import log
from recap.data.vocabulary.text import one_line

if TYPE_CHECKING:
    import pyarrow as pa

SPLITS = ("train", "val", "test")
VIEWS = "|"  # parts the files of an example that is seen in several pictures: "frontal.png|lateral.png"
COLUMNS = ("image_id", "file", "split", "caption_id", "caption", "tokens")
# Rows of a row group: what writer and reader hold at once (about 50 MB of Python objects).
ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Caption:
    """One caption of one image; ``caption`` is raw, ``tokens`` are its words.

    An example with several views (an X-ray study) is one image, whose ``file`` names them all, separated by VIEWS.
    """

    image_id: int
    file: str
    split: str
    caption_id: int
    caption: str
    tokens: list[str]


def need_splits(found: Container[str], where: str) -> None:
    """Refuse a data set without images in one of SPLITS."""
    for split in SPLITS:
        if split not in found:
            raise DataError(f"{where}: the split {split!r} has no images; train, val and test each need some")


class DrawnFrom(NamedTuple):
    """A list of web pictures of which only those that draws need were asked for."""

    rows: int  #: of the list; image and caption ids of the training split are numbers of its rows
    held_out: int  #: rows of the validation split
    seed: int  #: of its draw
    survival: float  #: share of the rows that was expected to have a picture, at least


def write_corpus(
    captions: Iterable[Caption],
    path: Path,
    *,
    dataset: str,
    kind: str,
    source_sha256: str,
    drawn_from: DrawnFrom | None = None,
) -> None:
    """Write captions as a corpus file, in the order of their ids; equal captions give equal bytes.

    A list is sorted by caption id. Any other iterable is streamed in bounded memory and must rise by itself.
    Line-break characters inside a caption become a space (a caption must stay one line for the tokenisers behind);
    how many captions that concerned is reported.
    """
    import pyarrow.parquet as pq

    rows = sorted(captions, key=lambda row: row.caption_id) if isinstance(captions, list) else captions
    about: dict[str, Any] = {"dataset": dataset, "kind": kind, "source_sha256": source_sha256}
    if drawn_from is not None:
        about["drawn_from"] = list(drawn_from)
    checks = _Checks(dataset)
    with (
        atomic_path(path) as temporary,
        pq.ParquetWriter(temporary, schema(), compression="zstd", write_page_checksum=True) as writer,
    ):
        for group in _groups(rows):
            writer.write_table(_table(checks.passed(group)), row_group_size=ROWS)
        about["split_hash"] = checks.split_hash()
        writer.add_key_value_metadata({"recap": json.dumps(about, sort_keys=True)})
    if checks.changed:
        log.info(f"{dataset}: line breaks inside {checks.changed} captions became spaces")


def schema() -> pa.Schema:
    """Return the Arrow schema of a corpus file."""
    import pyarrow as pa

    types = (pa.int64(), pa.string(), pa.string(), pa.int64(), pa.string(), pa.list_(pa.string()))
    return pa.schema(list(zip(COLUMNS, types, strict=True)))


def _groups(rows: Iterable[Caption]) -> Iterator[list[Caption]]:
    """Cut rows into row groups."""
    left = iter(rows)
    while group := list(islice(left, ROWS)):
        yield group


def _table(rows: list[Caption]) -> pa.Table:
    import pyarrow as pa

    columns = [[getattr(row, name) for row in rows] for name in COLUMNS]
    columns[COLUMNS.index("caption")] = [one_line(row.caption) for row in rows]
    return pa.table(columns, schema=schema())


class _Checks:
    """Checks over all rows; keeps 17 bytes per row."""

    def __init__(self, dataset: str) -> None:
        self.dataset = dataset
        self.changed = 0
        self._last: int | None = None
        self._images: list[np.ndarray] = []
        self._codes: list[np.ndarray] = []

    def passed(self, rows: list[Caption]) -> list[Caption]:
        """Return rows that may follow those before."""
        for row in rows:
            if self._last is not None and row.caption_id <= self._last:
                wrong = "is duplicated" if row.caption_id == self._last else f"comes after {self._last}"
                raise DataError(f"{self.dataset}: caption id {row.caption_id} {wrong}; correct the annotations")
            if row.split not in SPLITS:
                raise DataError(
                    f"{self.dataset}: image id {row.image_id}: no such split as {row.split!r}; "
                    f"{nearest(row.split, SPLITS)}"
                )
            self._last = row.caption_id
            self.changed += one_line(row.caption) != row.caption
        self._images.append(np.fromiter((row.image_id for row in rows), np.int64, len(rows)))
        self._codes.append(np.fromiter((SPLITS.index(row.split) for row in rows), np.int8, len(rows)))
        return rows

    def split_hash(self) -> str:
        """Return the hash of which image is in which split: ``value_hash`` of the sorted pairs, a piece at a time."""
        if not self._images:
            raise DataError(f"{self.dataset}: no captions to write; correct the annotations")
        images, codes = np.concatenate(self._images), np.concatenate(self._codes)
        unique, first = np.unique(images, return_index=True)
        other = np.flatnonzero(codes[first][np.searchsorted(unique, images)] != codes)
        if len(other):
            image = int(images[other[0]])
            splits = sorted({SPLITS[code] for code in codes[images == image]}, key=SPLITS.index)
            raise DataError(
                f"{self.dataset}: image id {image} is in the splits {' and '.join(map(repr, splits))}; "
                f"take it out of one of them"
            )
        return _pairs_hash(unique, codes[first])


def _pairs_hash(images: np.ndarray, codes: np.ndarray) -> str:
    digest = hashlib.sha256(b"[")
    for start in range(0, len(images), ROWS):
        piece = zip(images[start : start + ROWS].tolist(), codes[start : start + ROWS].tolist(), strict=True)
        text = ",".join(f'[{image},"{SPLITS[code]}"]' for image, code in piece)
        digest.update(f"{',' if start else ''}{text}".encode())
    digest.update(b"]")
    return digest.hexdigest()[:16]


class Captions(Sequence[Caption]):
    """Captions held as numbers and texts.

    They take a third of the memory of as many `Caption`, and Python's collector, which walks over all lists and objects
    again and again while more are made, finds none here.
    """

    def __init__(self) -> None:
        self._numbers = array("q"), array("q")  # image id and caption id of each
        self._texts: tuple[list[str], ...] = ([], [], [], [])  # file, split, caption and its words

    def extend(self, rows: Iterable[Caption]) -> None:
        """Add captions, whose words have no spaces."""
        for row in rows:
            self.append(row)

    def append(self, row: Caption) -> None:
        """Add a caption, whose words have no spaces."""
        self._numbers[0].append(row.image_id)
        self._numbers[1].append(row.caption_id)
        texts = (row.file, row.split, row.caption, " ".join(row.tokens))
        for column, text in zip(self._texts, texts, strict=True):
            column.append(text)

    def __len__(self) -> int:
        return len(self._numbers[0])

    def __getitem__(self, place: int) -> Caption:  # type: ignore[override]
        image_id, caption_id = (column[place] for column in self._numbers)
        file, split, caption, words = (texts[place] for texts in self._texts)
        return Caption(image_id, file, split, caption_id, caption, words.split(" "))

    def by_id(self) -> Iterator[Caption]:
        """Yield the captions by rising id."""
        return map(self.__getitem__, np.argsort(np.frombuffer(self._numbers[1], np.int64), kind="stable").tolist())
