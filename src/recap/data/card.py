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
        words.append([str(threshold), f"{size:,}"])
        for counted in splits.values():
            words[-1].append(f"{100 * counted.unknown(train, threshold):.2f} %")
    source = ""
    if counts is not None:
        checksums.check(counts)
        source = f"\n## From the source to the corpus\n\n{counts.read_text(encoding='utf-8')}"
    percents = [f"{percent} %" for percent in PERCENTILES]
    unknown = [f"unknown in {split}" for split in splits]
    write_text(
        out,
        f"# Corpus card: {name}\n\n"
        f"Kind `{table.kind}`, source {table.source_sha256[:16]}, split {table.split_hash[:16]}. "
        f"A caption's length is its number of words.\n{source}"
        "\n## Captions\n\n"
        f"{_table(['split', 'images', 'captions', 'mean length', 'sd', *percents], lengths)}"
        "\n## Vocabulary\n\n"
        "Words of the training captions, and the share of words that become `<unk>`.\n\n"
        f"{_table(['seen at least', 'words', *unknown], words)}"
        "\n## Parts of speech\n\n"
        f"{len(train.sample):,} training captions, evenly spread. {shares(train.sample)}\n",
    )
    checksums.record(out)


def count_splits(corpus: Corpus) -> dict[str, Split]:
    """Return the counts of each split that has captions, and a sample of them, evenly spread."""
    corpus.rows("train")  # refuses a corpus without training captions
    every = -(-len(corpus.image_id) // TAGGED)
    splits = {}
    for split in corpus.present():
        counted = splits[split] = Split(len(corpus.image_ids(split)))
        for number, words in enumerate(corpus.token_lists(split)):
            counted.lengths.append(len(words))
            counted.words.update(map(str.lower, words))
            if number % every == 0:
                counted.sample.append(words)
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
        keys: list[object] = [file]
        if source is not None:
            keys.append(hashlib.sha256(source.read(file)).digest())
        for key in keys:
            split, first = first_with.setdefault(key, (split_of[image], file))
            if split != split_of[image]:
                shared.append(f"{file} ({split_of[image]}) is {first} ({split})")
    if shared:
        raise DataError(
            f"{corpus}: {len(shared)} pictures are those of another split, first {shared[0]}; take "
            "them out of one"
        )
    return {split: len(table.image_ids(split)) for split in table.present()}
