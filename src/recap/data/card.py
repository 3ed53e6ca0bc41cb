"""The card of a corpus: how many captions, how long, which words, which parts of speech; as Markdown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from recap.core.atomic import write_text
from recap.core.errors import DataError
from recap.data.corpus import SPLITS
from recap.data.parts_of_speech import shares

THRESHOLDS = (1, 2, 3, 4, 5, 6, 10)
PERCENTILES = (0, 5, 25, 50, 75, 95, 100)
TAGGED = 10_000  # captions, evenly spread over the training split, whose words are tagged
_ROWS = 20_000  # held at a time


@dataclass
class Split:
    """What is counted in one split; it grows with the number of images and of different words only."""

    images: list[np.ndarray] = field(default_factory=list)
    lengths: Counter[int] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    sample: list[list[str]] = field(default_factory=list)

    @property
    def captions(self) -> int:
        """How many captions there are."""
        return self.lengths.total()

    def add(self, image_ids: np.ndarray, token_lists: list[list[str]], every: int) -> None:
        """Count some captions, and keep every so many of them."""
        first = -self.captions % every
        self.images.append(np.unique(image_ids))
        self.lengths.update(map(len, token_lists))
        self.words.update(map(str.lower, chain.from_iterable(token_lists)))
        self.sample += token_lists[first::every]

    def percentiles(self) -> list[int]:
        """Return the lengths at PERCENTILES: the smallest that so many percent of the captions do not exceed."""
        lengths = np.array(sorted(self.lengths))
        reached = np.cumsum([self.lengths[length] for length in lengths.tolist()]) / self.captions
        places = np.searchsorted(reached, np.array(PERCENTILES) / 100 - 1e-12)
        found: list[int] = lengths[np.minimum(places, len(lengths) - 1)].tolist()
        return found

    def mean_and_sd(self) -> tuple[float, float]:
        """Return mean and standard deviation of the lengths."""
        lengths, counts = np.array(sorted(self.lengths.items()), dtype=np.float64).T
        mean = float(np.average(lengths, weights=counts))
        return mean, float(np.average((lengths - mean) ** 2, weights=counts) ** 0.5)


def write_card(*, name: str, corpus: Path, counts: Path | None, out: Path) -> None:
    """Write the card of a corpus file, which is read piece by piece.

    Args:
        name: the data set.
        corpus: corpus.parquet.
        counts: a Markdown list that leads from the source's files to the captions in use, if the reader made one.
        out: the Markdown file.

    Raises:
        DataError: the corpus is missing or damaged.
    """
    about, splits = count_splits(corpus)
    used = {split: counted for split, counted in splits.items() if counted.captions}
    train = splits["train"]
    parts = [f"# Corpus card: {name}\n\nKind `{about['kind']}`, source {about['source_sha256'][:16]}, "]
    parts.append(f"split {about['split_hash'][:16]}. A caption's length is its number of words.\n")
    if counts is not None:
        parts.append(f"\n## From the source to the corpus\n\n{counts.read_text(encoding='utf-8')}")
    parts.append(f"\n## Captions\n\n{_captions(used)}")
    parts.append("\n## Vocabulary\n\nWords of the training captions, and the share of words that become `<unk>`.\n\n")
    parts.append(_vocabulary(train, used))
    parts.append("\n## Parts of speech\n\n")
    parts.append(f"{len(train.sample):,} training captions, evenly spread. {shares(train.sample)}\n")
    write_text(out, "".join(parts))


def count_splits(corpus: Path) -> tuple[dict[str, str], dict[str, Split]]:
    """Return what the corpus file says of itself, and the counts of each split."""
    splits = {split: Split() for split in SPLITS}
    with _opened(corpus) as file:
        about: dict[str, str] = json.loads(file.schema_arrow.metadata[b"recap"])
        every = -(-file.metadata.num_rows // TAGGED)
        for piece in file.iter_batches(_ROWS, columns=["image_id", "split", "tokens"]):
            names = np.asarray(piece["split"].to_pylist(), dtype=str)
            image_ids, token_lists = piece["image_id"].to_numpy(), piece["tokens"].to_pylist()
            for split, counted in splits.items():
                rows = np.flatnonzero(names == split)
                counted.add(image_ids[rows], [token_lists[row] for row in rows.tolist()], every)
    if not splits["train"].captions:
        raise DataError(f"{corpus}: the split 'train' has no captions; correct the annotations")
    return about, splits


@contextmanager
def _opened(corpus: Path) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not corpus.is_file():
        raise DataError(f"{corpus}: no such corpus; run `recap data corpus` first")
    try:
        with pq.ParquetFile(corpus, page_checksum_verification=True) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{corpus}: damaged or no corpus ({reason}); delete it and make it again") from error


def _captions(splits: dict[str, Split]) -> str:
    heads = [f"{percent} %" for percent in PERCENTILES]
    rows = []
    for name, split in splits.items():
        mean, sd = split.mean_and_sd()
        images = len(np.unique(np.concatenate(split.images)))
        spread = [str(length) for length in split.percentiles()]
        rows.append([name, f"{images:,}", f"{split.captions:,}", f"{mean:.2f}", f"{sd:.2f}", *spread])
    return _table(["split", "images", "captions", "mean length", "sd", *heads], rows)


def _vocabulary(train: Split, splits: dict[str, Split]) -> str:
    rows = []
    for threshold in THRESHOLDS:
        size = sum(count >= threshold for count in train.words.values())
        unknown = [f"{100 * _unknown(split, train, threshold):.2f} %" for split in splits.values()]
        rows.append([str(threshold), f"{size:,}", *unknown])
    return _table(["seen at least", "words", *(f"unknown in {name}" for name in splits)], rows)


def _unknown(split: Split, train: Split, threshold: int) -> float:
    """Return the share of a split's words that training captions hold fewer than ``threshold`` times."""
    rare = sum(count for word, count in split.words.items() if train.words[word] < threshold)
    return rare / max(1, split.words.total())


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
