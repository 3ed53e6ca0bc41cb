"""Conceptual Captions: a list of captions and addresses, and the pictures that were left of it."""

from __future__ import annotations

import gzip
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recap.core.errors import DamagedData, DataError
from recap.core.files import reading
from recap.core.hashing import sha256_file, value_hash
from recap.core.log import log
from recap.data.corpus import Caption, WebSample, warn_of_part
from recap.data.datasets.base import Built
from recap.data.subsets import VALIDATION, rank, rows_with_pictures
from recap.data.tokenizer import is_storable, tokenize
from recap.settings.datasets import SURVIVORS, TRAINING_ROWS, VALIDATION_ROWS, ConceptualDataset

# Image ids of the test split start here,
# so that they do not depend on how long the training TSV is.
TEST_IDS = 10_000_000
SHARD = 500  # rows whose pictures are in one folder
_READ = ["row", "url", "status", "bytes", "source_sha256"]  # what the corpus needs of a record
# a picture of so many rows or more is what a host answers in place of pictures that are gone
REPEATED = 5
_AGAIN = {
    "missing": "run `recap data conceptual-download` first",
    "damaged": "delete it and download again",
}


class Row(NamedTuple):
    """One line of a TSV."""

    number: int
    caption: str
    url: str


@dataclass(frozen=True, slots=True)
class Record:
    """One row of the survivors list; ``status`` is 'ok' or why there is no picture."""

    row: int
    url: str
    status: str
    error: str = ""
    file: str = ""
    bytes: int = 0
    sha256: str = ""
    width: int = 0
    height: int = 0
    original_width: int = 0
    original_height: int = 0
    source_sha256: str = ""

    @property
    def ok(self) -> bool:
        """Whether the picture is there."""
        return self.status == "ok"

    @property
    def source(self) -> int:
        """The picture as it was fetched, in 8 bytes: millions of them are held in memory."""
        return int(self.source_sha256[:16], 16)


def build(spec: ConceptualDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """Read Conceptual Captions as the settings say; arguments and errors as of a `Reader`.

    Captions whose pictures are there come in rising id: training and validation, then test. Image
    and caption id are the line's number in the training TSV, from 0; in the public validation TSV,
    which is the test split, TEST_IDS more. The validation split is drawn from the fetched training
    rows by the sha256 of seed and number: rows that are fetched later change it as little as they
    can. A training row whose url is in the test split too is left out, as is a caption without any
    word, and one whose picture REPEATED rows or more have.
    """
    tsvs = {"train": inputs / spec.train, "validation": inputs / spec.validation}
    survivors = {part: inputs / spec.images / part / SURVIVORS for part in tsvs}
    # of the TSV, too, or the lists do not belong together
    counts = {part: _count_records(path) for part, path in survivors.items()}
    warn_of_part(tsvs["train"], counts["train"], TRAINING_ROWS, "rows")
    warn_of_part(tsvs["validation"], counts["validation"], VALIDATION_ROWS, "rows")
    placeholders = find_placeholders(survivors.values(), name)
    records = read_records(survivors["validation"], _READ)
    tests = {record.url for record in records if record.ok and record.source not in placeholders}
    rows = _fetched(
        tsvs["train"], survivors["train"], read_records(survivors["train"], _READ), placeholders
    )
    usable = np.fromiter(
        (row.number for row in rows if row.url not in tests and tokenize(row.caption)), np.int64
    )
    if len(usable) <= spec.val_pairs:
        raise DataError(
            f"{tsvs['train']}: {len(usable)} rows have a picture, too few for {spec.val_pairs}; "
            "fetch more, or lower val_pairs"
        )
    drawn_from = None
    if spec.survival is None:
        chosen = rank(usable, dataset=name, unit=VALIDATION, seed=spec.seed)[: spec.val_pairs]
    else:
        drawn_from = WebSample(counts["train"], spec.val_pairs, spec.seed, spec.survival)
        chosen = rows_with_pictures(usable.tolist(), drawn_from, dataset=name)
    drawn = np.zeros(usable[-1] + 1, bool)
    drawn[chosen] = True
    rows_of = {}  # read when captions are taken
    for part, path in survivors.items():
        rows_of[part] = _fetched(tsvs[part], path, _present(path), placeholders)
    return Built(
        _captions(rows_of, tests, drawn, name),
        value_hash([sha256_file(inputs / file) for file in spec.outside_files()]),
        drawn_from,
    )


def _captions(
    rows_of: Mapping[str, Iterator[Row]], tests: Collection[str], drawn: np.ndarray, name: str
) -> Iterator[Caption]:
    """Yield the captions of both TSVs.

    Args:
        rows_of: the rows with a picture of ``train`` and of ``validation``.
        tests: urls of the test split.
        drawn: whether each training row is drawn for the validation split, bool [rows].
        name: of the data set.
    """
    left_out = 0
    for part, rows in rows_of.items():
        for row in rows:
            words = tokenize(row.caption)
            if not words or (part == "train" and row.url in tests):
                left_out += 1
                continue
            number = row.number
            split = "train"
            if part == "validation":
                number += TEST_IDS
                split = "test"
            elif drawn[row.number]:
                split = "val"
            file = f"{part}/{file_of(row.number)}"
            yield Caption(number, file, split, number, row.caption, words)
    if left_out:
        log.info(
            f"{name}: {left_out} rows left out: no word in the caption, or a training url of "
            "the test split"
        )


def find_placeholders(lists: Collection[Path], name: str) -> frozenset[int]:
    """Return the pictures that REPEATED rows or more have (`Record.source`), with a warning."""
    every = chain.from_iterable(read_records(path, _READ) for path in lists)
    found = np.fromiter((record.source for record in every if record.ok), np.uint64)
    sources, counts = np.unique(found, return_counts=True)
    repeated = counts >= REPEATED
    if repeated.any():
        log.warning(
            f"{name}: {counts[repeated].sum():,} rows left out, whose picture {REPEATED} rows or "
            "more have: some hosts answer with one picture for all that are gone"
        )
    return frozenset(sources[repeated].tolist())


def _fetched(
    tsv: Path, survivors: Path, records: Iterable[Record], placeholders: frozenset[int]
) -> Iterator[Row]:
    """Yield the rows of a TSV that have a picture of their own."""
    for row, record in zip_longest(read_tsv(tsv), records):
        if row is None or record is None or (row.number, row.url) != (record.row, record.url):
            number = record.row if row is None else row.number
            raise DataError(
                f"{survivors}: its row {number} is not line {number + 1} of {tsv}; download again "
                "from this TSV"
            )
        if record.ok and record.source not in placeholders:
            yield row


def _present(survivors: Path) -> Iterator[Record]:
    """Yield all records of a survivors list, whose pictures are there with their sizes."""
    for record in read_records(survivors, _READ):
        if record.ok:
            path = survivors.parent / file_of(record.row)
            size = path.stat().st_size if path.exists() else None
            if size != record.bytes:
                wrong = "is missing" if size is None else f"has {size} bytes, not {record.bytes}"
                raise DataError(
                    f"{path}: the picture {wrong}; run `recap data conceptual-download` again"
                )
        yield record


def file_of(row: int) -> str:
    """Return the name of a row's picture below the folder of the download:
    ``00012/0006123.jpg``."""
    return f"{row // SHARD:05d}/{row:07d}.jpg"


def read_tsv(path: Path) -> Iterator[Row]:
    """Yield the rows of a plain or gzipped TSV, one at a time."""
    number = -1
    with (
        reading(path, DataError, missing="fetch it, or correct the path", damaged="fetch it again"),
        gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines,
    ):
        for number, line in enumerate(lines):
            cells = [cell.strip() for cell in line.decode(errors="surrogateescape").split("\t")]
            if len(cells) != 2 or not all(cells) or not is_storable("".join(cells)):
                raise DamagedData(
                    f"{path}: line {number + 1}: expected 'caption TAB url' in UTF-8; correct the "
                    "line, or fetch the file again if it ends there"
                )
            yield Row(number, *cells)
    if number < 0:
        raise DataError(f"{path}: the TSV is empty; fetch it again")


def read_records(path: Path, names: Sequence[str] | None = None) -> Iterator[Record]:
    """Yield records of a shard or of a survivors list, or some columns, in bounded memory."""
    import pyarrow.parquet as pq

    with (
        reading(path, DataError, **_AGAIN),
        pq.ParquetFile(path, page_checksum_verification=True) as file,
    ):
        for batch in file.iter_batches(batch_size=10_000, columns=names):
            yield from (Record(**values) for values in batch.to_pylist())


def _count_records(path: Path) -> int:
    import pyarrow.parquet as pq

    with reading(path, DataError, **_AGAIN):
        return int(pq.read_metadata(path).num_rows)
