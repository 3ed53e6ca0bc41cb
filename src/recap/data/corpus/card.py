"""The card of a corpus: how many captions, how long, which words, which parts of speech; as Markdown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

import numpy as np

from recap.core import checksums
from recap.core.errors import DataError
from recap.core.files import write_text
from recap.data.corpus.corpus import SPLITS, Corpus
from recap.data.corpus.parts_of_speech import shares

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
    """
    table = Corpus.read(corpus)
    used = count_splits(table)
    train = used["train"]
    parts = [f"# Corpus card: {name}\n\nKind `{table.kind}`, source {table.source_sha256[:16]}, "]
    parts.append(f"split {table.split_hash[:16]}. A caption's length is its number of words.\n")
    if counts is not None:
        checksums.check(counts)
        parts.append(f"\n## From the source to the corpus\n\n{counts.read_text(encoding='utf-8')}")
    parts.append(f"\n## Captions\n\n{_captions(used)}")
    parts.append("\n## Vocabulary\n\nWords of the training captions, and the share of words that become `<unk>`.\n\n")
    parts.append(_vocabulary(train, used))
    parts.append("\n## Parts of speech\n\n")
    parts.append(f"{len(train.sample):,} training captions, evenly spread. {shares(train.sample)}\n")
    write_text(out, "".join(parts))
    checksums.record(out)


def count_splits(corpus: Corpus) -> dict[str, Split]:
    """Return the counts of each split that has captions, read a piece at a time."""
    every = -(-len(corpus.image_id) // TAGGED)
    splits = {}
    for split in SPLITS:
        rows = np.flatnonzero(corpus.split == split)
        if not len(rows):
            continue
        counted = splits[split] = Split()
        image_ids, token_lists = corpus.image_id[rows], corpus.each_token_list(split)
        for start in range(0, len(rows), _ROWS):
            counted.add(image_ids[start : start + _ROWS], list(islice(token_lists, _ROWS)), every)
    if "train" not in splits:
        raise DataError(f"{corpus.path}: the split 'train' has no captions; correct the annotations")
    return splits


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
