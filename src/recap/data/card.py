"""The card of a data set: its numbers, its words by part of speech.

And what its splits share, which is refused.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from recap.core import checksums
from recap.core.errors import DataError
from recap.core.files import write_text
from recap.core.log import progress
from recap.data.corpus import Corpus
from recap.data.files.images import ImageSource
from recap.data.tokenizer import TAGGED, shares

THRESHOLDS = (1, 2, 3, 4, 5, 6, 10)
PERCENTILES = (0, 5, 25, 50, 75, 95, 100)


@dataclass
class Split:
    """What is counted in one split."""

    images: int
    lengths: list[int] = field(default_factory=list)  # words of each caption
    words: Counter[str] = field(default_factory=Counter)
    sample: list[list[str]] = field(default_factory=list)

    def row(self) -> list[str]:
        """Return the numbers of images and captions, and mean,
        standard deviation and percentiles of the lengths."""
        lengths = np.array(self.lengths)
        percentiles = np.percentile(lengths, PERCENTILES, method="inverted_cdf").tolist()
        numbers = [f"{lengths.mean():.2f}", f"{lengths.std():.2f}", *map(str, percentiles)]
        return [f"{self.images:,}", f"{len(lengths):,}", *numbers]

    def unknown(self, train: Split, threshold: int) -> float:
        """Return the share of words that training captions hold fewer than ``threshold`` times."""
        rare = sum(count for word, count in self.words.items() if train.words[word] < threshold)
        return rare / max(1, self.words.total())


def write_card(*, name: str, corpus: Path, counts: Path | None, out: Path) -> None:
    """Write the card of a corpus file as Markdown.

    ``counts`` says how its reader came to its captions.
    """
    table = Corpus.read(corpus)
    splits = count_splits(table)
    train = splits["train"]
    lengths = [[split, *counted.row()] for split, counted in splits.items()]
    words = []
    for threshold in THRESHOLDS:
        size = sum(count >= threshold for count in train.words.values())
        unknown = [
            f"{100 * counted.unknown(train, threshold):.2f} %" for counted in splits.values()
        ]
        words.append([str(threshold), f"{size:,}", *unknown])
    percents = [f"{percent} %" for percent in PERCENTILES]
    parts = [f"# Corpus card: {name}\n\nKind `{table.kind}`, source {table.source_sha256[:16]}, "]
    parts.append(f"split {table.split_hash[:16]}. A caption's length is its number of words.\n")
    if counts is not None:
        checksums.check(counts)
        parts.append(f"\n## From the source to the corpus\n\n{counts.read_text(encoding='utf-8')}")
    parts.append("\n## Captions\n\n")
    parts.append(_table(["split", "images", "captions", "mean length", "sd", *percents], lengths))
    parts.append(
        "\n## Vocabulary\n\nWords of the training captions, and the share of words that become "
        "`<unk>`.\n\n"
    )
    parts.append(
        _table(["seen at least", "words", *(f"unknown in {split}" for split in splits)], words)
    )
    parts.append("\n## Parts of speech\n\n")
    parts.append(
        f"{len(train.sample):,} training captions, evenly spread. {shares(train.sample)}\n"
    )
    write_text(out, "".join(parts))
    checksums.record(out)


def count_splits(corpus: Corpus) -> dict[str, Split]:
    """Return the counts of each split that has captions, and a sample of them, evenly spread."""
    every = -(-len(corpus.image_id) // TAGGED)
    splits = {}
    for split in corpus.present():
        counted = splits[split] = Split(len(corpus.image_ids(split)))
        for number, words in enumerate(corpus.token_lists(split)):
            counted.lengths.append(len(words))
            counted.words.update(map(str.lower, words))
            if number % every == 0:
                counted.sample.append(words)
    if "train" not in splits:
        raise DataError(
            f"{corpus.path}: the split 'train' has no captions; correct the annotations"
        )
    return splits


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def check_overlap(*, corpus: Path, images: Sequence[Path] = ()) -> dict[str, int]:
    """Return the number of images of each split,
    if no two splits share a file or (asked for) a picture.

    With folders or zips of ``images``, equal bytes under two names count as shared, too.
    """
    table = Corpus.read(corpus)
    source = ImageSource(images) if images else None
    split_of = dict(zip(table.image_id.tolist(), table.split.tolist(), strict=True))
    # a file, or the hash of a picture -> split and file
    first_with: dict[object, tuple[str, str]] = {}
    shared: list[str] = []
    for image, file in progress(
        table.files().items(), name="pictures", unit="pictures", total=len(split_of)
    ):
        for key in [file, *([hashlib.sha256(source.read(file)).digest()] if source else [])]:
            split, first = first_with.setdefault(key, (split_of[image], file))
            if split != split_of[image]:
                shared.append(f"{file} ({split_of[image]}) is {first} ({split})")
    if shared:
        raise DataError(
            f"{corpus}: {len(shared)} pictures are those of another split, first {shared[0]}; take "
            "them out of one"
        )
    return {split: len(table.image_ids(split)) for split in table.present()}
