"""The card of a data set: its numbers, its words by part of speech; and what its splits share, which is refused."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, islice
from pathlib import Path

import numpy as np

from recap.core import checksums
from recap.core.errors import DataError
from recap.core.files import write_text
from recap.core.log import progress
from recap.data.corpus import SPLITS, Corpus
from recap.data.files.images import ImageSource
from recap.data.parts_of_speech import TAGGED, shares

THRESHOLDS = (1, 2, 3, 4, 5, 6, 10)
PERCENTILES = (0, 5, 25, 50, 75, 95, 100)
_ROWS = 20_000  # held at a time


@dataclass
class Split:
    """What is counted in one split; it grows with the number of different words only."""

    images: int
    lengths: Counter[int] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    sample: list[list[str]] = field(default_factory=list)

    @property
    def captions(self) -> int:
        """How many captions there are."""
        return self.lengths.total()

    def add(self, token_lists: list[list[str]], every: int) -> None:
        """Count some captions, and sample every so many of them."""
        first = -self.captions % every
        self.lengths.update(map(len, token_lists))
        self.words.update(map(str.lower, chain.from_iterable(token_lists)))
        self.sample += token_lists[first::every]

    def percentiles(self) -> list[int]:
        """Return the lengths at PERCENTILES: the smallest that so many percent of the captions do not exceed."""
        lengths = np.array(sorted(self.lengths))
        reached = np.cumsum([self.lengths[length] for length in lengths.tolist()]) / self.captions
        places = np.searchsorted(reached, np.array(PERCENTILES) / 100 - 1e-12)
        values: list[int] = lengths[np.minimum(places, len(lengths) - 1)].tolist()
        return values

    def mean_and_sd(self) -> tuple[float, float]:
        """Return mean and standard deviation of the lengths."""
        lengths, counts = np.array(sorted(self.lengths.items()), dtype=np.float64).T
        mean = float(np.average(lengths, weights=counts))
        return mean, float(np.average((lengths - mean) ** 2, weights=counts) ** 0.5)

    def unknown(self, train: Split, threshold: int) -> float:
        """Return the share of the words that training captions hold fewer than ``threshold`` times."""
        rare = sum(count for word, count in self.words.items() if train.words[word] < threshold)
        return rare / max(1, self.words.total())


def write_card(*, name: str, corpus: Path, counts: Path | None, out: Path) -> None:
    """Write the card of a corpus file as Markdown; ``counts`` says how its reader came to its captions."""
    table = Corpus.read(corpus)
    splits = count_splits(table)
    train = splits["train"]
    lengths = []
    for split, counted in splits.items():
        mean, sd = counted.mean_and_sd()
        numbers = [f"{counted.images:,}", f"{counted.captions:,}", f"{mean:.2f}", f"{sd:.2f}"]
        lengths.append([split, *numbers, *map(str, counted.percentiles())])
    words = []
    for threshold in THRESHOLDS:
        size = sum(count >= threshold for count in train.words.values())
        unknown = [f"{100 * counted.unknown(train, threshold):.2f} %" for counted in splits.values()]
        words.append([str(threshold), f"{size:,}", *unknown])
    percents = [f"{percent} %" for percent in PERCENTILES]
    parts = [f"# Corpus card: {name}\n\nKind `{table.kind}`, source {table.source_sha256[:16]}, "]
    parts.append(f"split {table.split_hash[:16]}. A caption's length is its number of words.\n")
    if counts is not None:
        checksums.check(counts)
        parts.append(f"\n## From the source to the corpus\n\n{counts.read_text(encoding='utf-8')}")
    parts.append("\n## Captions\n\n")
    parts.append(_table(["split", "images", "captions", "mean length", "sd", *percents], lengths))
    parts.append("\n## Vocabulary\n\nWords of the training captions, and the share of words that become `<unk>`.\n\n")
    parts.append(_table(["seen at least", "words", *(f"unknown in {split}" for split in splits)], words))
    parts.append("\n## Parts of speech\n\n")
    parts.append(f"{len(train.sample):,} training captions, evenly spread. {shares(train.sample)}\n")
    write_text(out, "".join(parts))
    checksums.record(out)


def count_splits(corpus: Corpus) -> dict[str, Split]:
    """Return the counts of each split that has captions, read a piece at a time."""
    every = -(-len(corpus.image_id) // TAGGED)
    splits = {}
    for split in SPLITS:
        if not (corpus.split == split).any():
            continue
        counted = splits[split] = Split(len(corpus.image_ids(split)))
        token_lists = corpus.each_token_list(split)
        while piece := list(islice(token_lists, _ROWS)):
            counted.add(piece, every)
    if "train" not in splits:
        raise DataError(f"{corpus.path}: the split 'train' has no captions; correct the annotations")
    return splits


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def check_overlap(*, corpus: Path, images: Sequence[Path] = ()) -> dict[str, int]:
    """Return the number of images of each split, if no two splits share an image id, a file or (asked for) a picture.

    With folders or zips of ``images``, equal bytes under two names count as shared, too.
    """
    import pyarrow.compute as pc

    table = Corpus.read(corpus)
    present = {split: table.image_ids(split) for split in SPLITS if (table.split == split).any()}
    for one, other in combinations(present, 2):
        files, others = table.column("file", one), table.column("file", other)
        shared = {
            "image ids": set(present[one]) & set(present[other]),
            "files": set(files.filter(pc.is_in(files, value_set=others)).to_pylist()),
        }
        for what, values in shared.items():
            if values:
                raise DataError(
                    f"{corpus}: the splits {one!r} and {other!r} share {len(values)} {what}, first {min(values)}; "
                    f"take them out of one split"
                )
    if images:
        _refuse_equal_pictures(table, ImageSource(images))
    return {split: len(ids) for split, ids in present.items()}


def _refuse_equal_pictures(table: Corpus, source: ImageSource) -> None:
    seen: dict[bytes, tuple[str, str]] = {}
    shared: list[str] = []
    split_of = dict(zip(table.image_id.tolist(), table.split.tolist(), strict=True))
    for image, file in progress(table.files().items(), name="pictures", unit="pictures", total=len(split_of)):
        digest = hashlib.sha256(source.read(file)).digest()
        split, first = seen.setdefault(digest, (split_of[image], file))
        if split != split_of[image]:
            shared.append(f"{file} ({split_of[image]}) is {first} ({split})")
    if shared:
        raise DataError(
            f"{table.path}: {len(shared)} pictures have the same bytes as one of another split, first {shared[0]}; "
            f"take them out of one split"
        )
