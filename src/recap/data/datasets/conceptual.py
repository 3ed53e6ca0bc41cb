"""Conceptual Captions: a list of captions and addresses, and the pictures that were left of it."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator
from itertools import groupby, zip_longest
from pathlib import Path

import numpy as np

from recap.core.errors import DataError, MissingData
from recap.core.hashing import sha256_file, value_hash
from recap.core.log import log
from recap.data.corpus.corpus_file import Caption, DrawnFrom
from recap.data.datasets.base import Built, warn_of_part
from recap.data.datasets.conceptual_pictures import SHARD, Record, Row, count_rows, file_of, read_records, read_tsv
from recap.data.subsets.draw import VALIDATION, first_survivors, rank
from recap.data.vocabulary.text import tokenize
from recap.settings.datasets import SURVIVORS, TRAINING_ROWS, VALIDATION_ROWS, ConceptualDataset

# Image ids of the test split start here, so that they do not depend on how long the training TSV is.
TEST_IDS = 10_000_000


def build(spec: ConceptualDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """Read Conceptual Captions as the settings say; arguments and errors as of a `Reader`."""
    for file in map(inputs.joinpath, spec.outside_files()):
        if not file.is_file():
            raise MissingData(f"{file}: no such file; fetch it (lists: `recap data conceptual-download`)")
    rows = count_rows(inputs / spec.train)
    warn_of_part(inputs / spec.train, rows, TRAINING_ROWS, "rows")
    warn_of_part(inputs / spec.validation, count_rows(inputs / spec.validation), VALIDATION_ROWS, "rows")
    drawn_from = DrawnFrom(rows, spec.val_pairs, spec.seed, spec.survival) if spec.survival is not None else None
    captions = read_conceptual(
        train=inputs / spec.train,
        validation=inputs / spec.validation,
        images=inputs / spec.images,
        val_pairs=spec.val_pairs,
        seed=spec.seed,
        dataset=name,
        drawn_from=drawn_from,
    )
    return Built(captions, value_hash([sha256_file(inputs / file) for file in spec.outside_files()]), drawn_from)


def read_conceptual(
    *,
    train: Path,
    validation: Path,
    images: Path,
    val_pairs: int,
    seed: int,
    dataset: str,
    drawn_from: DrawnFrom | None = None,
) -> Iterator[Caption]:
    """Yield the captions whose pictures are there: training and validation by line, then test, by rising id.

    Image and caption id are the line's number in the training TSV, from 0; in the public validation TSV, which is the
    test split, TEST_IDS more. The validation split is drawn from the fetched training rows by the sha256 of seed and
    number: rows that are fetched later change it as little as they can. A training row whose url is in the test
    split too is left out, as is a caption without any word; how many is reported.
    With ``drawn_from``, not all rows of the list were asked for.
    """
    tests = {record.url for record in read_records(survivors_of(images / "validation")) if record.ok}
    if not tests:
        raise DataError(
            f"{survivors_of(images / 'validation')}: lists no picture, so there is no test split; fetch more"
        )
    usable = _usable(train, images / "train", tests)
    if len(usable) <= val_pairs:
        raise DataError(
            f"{train}: {len(usable)} rows have a picture, too few to draw {val_pairs} validation pairs; "
            f"fetch more, or lower val_pairs"
        )
    if drawn_from is None:
        chosen = rank(usable, dataset=dataset, unit=VALIDATION, seed=seed)[:val_pairs]
    else:
        chosen = first_survivors(usable.tolist(), drawn_from, dataset=dataset)
    drawn = np.zeros(usable[-1] + 1, bool)
    drawn[chosen] = True
    left_out = 0
    for row in _fetched(train, images / "train", _present(images / "train")):
        words = tokenize(row.caption)
        if row.url in tests or not words:
            left_out += 1
            continue
        split = "val" if drawn[row.number] else "train"
        yield Caption(row.number, f"train/{file_of(row.number)}", split, row.number, row.caption, words)
    for row in _fetched(validation, images / "validation", _present(images / "validation")):
        if words := tokenize(row.caption):
            number = TEST_IDS + row.number
            yield Caption(number, f"validation/{file_of(row.number)}", "test", number, row.caption, words)
        else:
            left_out += 1
    if left_out:
        log.info(
            f"{dataset}: {left_out} rows left out: no word in the caption, or a training url that is in the test split"
        )


def survivors_of(folder: Path) -> Path:
    """Return the survivors list of a download."""
    return folder / SURVIVORS


def _usable(tsv: Path, folder: Path, tests: Container[str]) -> np.ndarray:
    """Return the numbers of the training rows that will be in the corpus, int64, rising."""
    fetched = _fetched(tsv, folder, read_records(survivors_of(folder)))
    return np.fromiter((row.number for row in fetched if row.url not in tests and tokenize(row.caption)), np.int64)


def _fetched(tsv: Path, folder: Path, records: Iterable[Record]) -> Iterator[Row]:
    """Yield the rows of a TSV that have a picture."""
    for row, record in zip_longest(read_tsv(tsv), records):
        if row is None or record is None or (row.number, row.url) != (record.row, record.url):
            number = record.row if row is None else row.number
            raise DataError(
                f"{survivors_of(folder)}: its row {number} is not line {number + 1} of {tsv}; "
                f"download again from this TSV"
            )
        if record.ok:
            yield row


def _present(folder: Path) -> Iterator[Record]:
    """Yield all records of a survivors list; the pictures of a shard are looked up at once, by name and size."""
    for _, group in groupby(read_records(survivors_of(folder)), key=lambda record: record.row // SHARD):
        records = list(group)
        sizes = _sizes((folder / file_of(records[0].row)).parent)
        for record in records:
            path = folder / file_of(record.row)
            if record.ok and sizes.get(path.name) != record.bytes:
                found = sizes.get(path.name)
                wrong = "is missing" if found is None else f"has {found} bytes, not {record.bytes}"
                raise DataError(f"{path}: the picture {wrong}; run `recap data conceptual-download` again")
            yield record


def _sizes(folder: Path) -> dict[str, int]:
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as entries:
        return {entry.name: entry.stat().st_size for entry in entries}
