"""The card of a data set: its numbers, its words by part of speech, and captions that its splits share."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path

import numpy as np

from recap.core import checksums
from recap.core.errors import ConfigError, DataError
from recap.core.files import write_text
from recap.core.log import progress
from recap.data.corpus.corpus import SPLITS, Corpus
from recap.data.files.images import ImageSource

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
    """Write the card of a corpus file as Markdown; ``counts`` says how its reader came to its captions."""
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


Tagger = Callable[[Sequence[Sequence[str]]], list[list[str]]]

# The start of a Penn Treebank tag.
_KINDS = {
    "NNP": "proper nouns", "NN": "nouns", "VB": "verbs", "MD": "verbs", "JJ": "adjectives", "RB": "adverbs",
    "IN": "prepositions", "TO": "prepositions", "DT": "determiners", "PDT": "determiners", "PR": "pronouns",
    "CD": "numbers", "CC": "conjunctions",
}  # fmt: skip
_OTHERS, _PUNCTUATION = "others", "punctuation"
GET = "pip install 'recap[tagger]'"
HINT = (
    f"No tagger is installed, so they are not counted: `{GET}`, or `pip install spacy` and "
    "`python -m spacy download en_core_web_sm`"
)


def shares(token_lists: Sequence[Sequence[str]]) -> str:
    """Return a sentence and a Markdown list with the share of each kind of word, or how to install a tagger."""
    found = tagger()
    if found is None:
        return f"{HINT}, then delete this card and repeat the command."
    name, tag = found
    return f"Tagged by {name}.\n\n{_listed(count_kinds(tag(token_lists)))}"


def tagger() -> tuple[str, Tagger] | None:
    """Return the name of the tagger that is installed and the function that tags sentences, or None."""
    taggers = {
        "spaCy en_core_web_sm": _spacy,
        "NLTK's averaged perceptron": _nltk,
        "TextBlob's pattern tagger": _textblob,
    }
    for name, load in taggers.items():
        tag = load()
        if tag is not None:
            return name, tag
    return None


def has_tagger() -> bool:
    """Return whether a tagger is installed; one whose package brings its model is not loaded, which takes seconds."""
    complete = (("textblob",), ("spacy", "en_core_web_sm"))
    return any(all(map(find_spec, packages)) for packages in complete) or _nltk() is not None


def needed_tagger() -> tuple[str, Tagger]:
    """Return the name of the tagger that is installed and the function that tags sentences."""
    found = tagger()
    if found is None:
        raise ConfigError(f"parts of speech: {HINT[0].lower()}{HINT[1:]}")
    return found


def parts_of_speech() -> list[str]:
    """Return the names of all kinds of words."""
    return [*dict.fromkeys(_KINDS.values()), _OTHERS, _PUNCTUATION]


def kind_of(tag: str) -> str:
    """Return the kind of word of a Penn Treebank tag."""
    if not tag[:1].isalpha():
        return _PUNCTUATION
    return next((kind for start, kind in _KINDS.items() if tag.startswith(start)), _OTHERS)


def count_kinds(tag_lists: Sequence[Sequence[str]]) -> Counter[str]:
    """Count kinds of words from Penn Treebank tags; punctuation is no word."""
    kinds: Counter[str] = Counter()
    for tag in (tag for tags in tag_lists for tag in tags if tag[:1].isalpha()):
        kinds[kind_of(tag)] += 1
    return kinds


def _listed(kinds: Counter[str]) -> str:
    total = max(1, kinds.total())
    return "".join(f"- {kind}: {100 * count / total:.1f} %\n" for kind, count in kinds.most_common()).rstrip()


def _spacy() -> Tagger | None:
    try:
        import spacy
        from spacy.tokens import Doc

        model = spacy.load("en_core_web_sm", exclude=["parser", "ner", "lemmatizer"])
    except (ImportError, OSError):  # the library, or its model
        return None

    def tag(token_lists: Sequence[Sequence[str]]) -> list[list[str]]:
        documents = (Doc(model.vocab, words=list(words)) for words in token_lists if words)
        return [[word.tag_ for word in document] for document in model.pipe(documents)]

    return tag


def _nltk() -> Tagger | None:
    try:
        from nltk.tag import PerceptronTagger

        model = PerceptronTagger()
    except (ImportError, LookupError):  # the library, or its model
        return None

    def tag(token_lists: Sequence[Sequence[str]]) -> list[list[str]]:
        return [[tag for _, tag in model.tag(list(words))] for words in token_lists if words]

    return tag


def _textblob() -> Tagger | None:
    """Return the tagger whose lexicon and rules come with its package."""
    try:
        from textblob.en.taggers import PatternTagger
    except ImportError:
        return None
    model = PatternTagger()

    def tag(token_lists: Sequence[Sequence[str]]) -> list[list[str]]:
        texts = (" ".join("".join(word.split()) or "-" for word in words) for words in token_lists if words)
        return [[tag for _, tag in model.tag(text, tokenize=False)] for text in texts]

    return tag


def check_overlap(*, corpus: Path, images: Sequence[Path] = ()) -> dict[str, int]:
    """Return the number of images of each split, if no two splits share an image id, a file or (asked for) a picture.

    With folders or zips of ``images``, equal bytes under two names count as shared, too.
    """
    table = Corpus.read(corpus)
    present = [split for split in SPLITS if (table.split == split).any()]
    for place, one in enumerate(present):
        for other in present[place + 1 :]:
            ids = np.intersect1d(table.image_id[table.rows(one)], table.image_id[table.rows(other)])
            _refuse(corpus, one, other, "image ids", set(ids.tolist()))
            _refuse(corpus, one, other, "files", _shared_files(table, one, other))
    if images:
        _refuse_equal_pictures(table, ImageSource(images))
    return {split: len(table.image_ids(split)) for split in present}


def _shared_files(table: Corpus, one: str, other: str) -> set[str]:
    import pyarrow.compute as pc

    files = table.column("file", one)
    return set(files.filter(pc.is_in(files, value_set=table.column("file", other))).to_pylist())


def _refuse(corpus: Path, one: str, other: str, what: str, shared: set[int] | set[str]) -> None:
    if shared:
        first = min(shared)
        raise DataError(
            f"{corpus}: the splits {one!r} and {other!r} share {len(shared)} {what}, first {first}; "
            f"take them out of one split"
        )


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
