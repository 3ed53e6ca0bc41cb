"""Vocabularies: which words of the training captions have an id, and captions as ids and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from recap.core import checksums
from recap.core.documents import read_json, write_json
from recap.core.errors import DamagedData, DataError
from recap.core.hashing import value_hash
from recap.data.corpus import Corpus
from recap.settings.datasets import BytePairRule, VocabularyConfig, VocabularyRule
from recap.settings.params import validate

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
BANNED = (PAD, BOS, UNK)  # never part of a decoded caption


class AnyVocabulary(Protocol):
    """Token ids of captions: 0 <pad>, 1 <bos>, 2 <eos>, 3 <unk>, then the tokens of this vocabulary."""

    rule: dict[str, Any]  #: the settings that it was made by
    max_length: int  #: captions are cut to this many tokens by ``encode``
    hash: str  #: 16 hex digits of rule and tokens

    def __len__(self) -> int:
        """Return the number of ids, the four special ones among them."""

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Return the ids of the words of a caption; no BOS, no EOS."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text up to the first EOS; PAD and BOS are skipped, UNK reads ``<unk>``."""

    def save(self, path: str | Path) -> None:
        """Write the vocabulary as JSON, atomically."""


def caption_part(ids: Iterable[int], size: int) -> list[int]:
    """Return the ids of a decoded caption up to the first EOS, without PAD and BOS."""
    numbers = []
    for number in map(int, ids):
        if number == EOS:
            break
        if not 0 <= number < size:
            raise DataError(f"id {number} is not in the vocabulary of {size}; use the one it was trained with")
        if number not in (PAD, BOS):
            numbers.append(number)
    return numbers


@dataclass(frozen=True)
class _Saved:
    """What a file of words holds."""

    words: list[str]
    rule: VocabularyRule
    hash: str


class Vocabulary:
    """Ids 0 <pad>, 1 <bos>, 2 <eos>, 3 <unk>, then ``words`` by falling count, equal counts by spelling."""

    def __init__(self, words: Sequence[str], rule: Mapping[str, Any]) -> None:
        self.words = list(words)
        self.rule = dict(rule)
        self.max_length: int = self.rule["max_length"]
        self.hash = value_hash({"rule": self.rule, "words": self.words})
        self._ids = {word: number for number, word in enumerate(self.words, start=len(SPECIAL))}

    @classmethod
    def build(cls, token_lists: Iterable[Sequence[str]], *, min_count: int, max_length: int, splits: str) -> Vocabulary:
        """Count words, in lower case and over whole captions, and keep those seen at least ``min_count`` times.

        ``splits`` is where the captions come from ('train' or 'all'), which the rule records.
        """
        counts = Counter(map(str.lower, chain.from_iterable(token_lists)))
        # A caption that spells "<eos>" must not end itself.
        words = [word for word, count in counts.items() if count >= min_count and word not in SPECIAL]
        if not words:
            raise DataError(f"vocabulary: none of {len(counts)} words is seen {min_count} times; lower min_count")
        words.sort(key=lambda word: (-counts[word], word))
        return cls(words, {"min_count": min_count, "max_length": max_length, "splits": splits})

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read a vocabulary file."""
        checksums.check(Path(path))
        return cls.from_values(read_json(path), path)

    @classmethod
    def from_values(cls, values: Any, path: str | Path) -> Vocabulary:
        """Build from what `save` wrote."""
        saved: _Saved = validate(_Saved, values, str(path))
        vocabulary = cls(saved.words, saved.rule.model_dump())
        if vocabulary.hash != saved.hash or len(vocabulary._ids) != len(vocabulary.words):
            raise DamagedData(
                f"{path}: the words do not match their hash; delete it and repeat the command that makes it"
            )
        return vocabulary

    def save(self, path: str | Path) -> None:
        """Write rule, words and hash as JSON, atomically."""
        write_json(path, {"rule": self.rule, "words": self.words, "hash": self.hash})

    def __len__(self) -> int:
        return len(SPECIAL) + len(self.words)

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Return the ids of the first ``max_length`` words, UNK for unknown ones; no BOS, no EOS."""
        return [self._ids.get(token.lower(), UNK) for token in tokens[: self.max_length]]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the words up to the first EOS, separated by spaces; PAD and BOS are skipped, UNK reads ``<unk>``."""
        numbers = caption_part(ids, len(self))
        return " ".join(SPECIAL[UNK] if number == UNK else self.words[number - len(SPECIAL)] for number in numbers)


def load_vocabulary(path: str | Path) -> AnyVocabulary:
    """Read a vocabulary file of any kind."""
    from recap.data.byte_pairs import BytePairVocabulary

    checksums.check(Path(path))
    values = read_json(path)
    if isinstance(values, dict) and "tokenizer" in values:
        return BytePairVocabulary.from_values(values, path)
    return Vocabulary.from_values(values, path)


def build_vocabulary(
    *, corpus: Path, rule: Mapping[str, Any] | VocabularyRule | BytePairRule, inputs: Path, out: Path
) -> AnyVocabulary:
    """Build the vocabulary of a corpus file by a data set's rule, write it to ``out`` and return it.

    Byte pairs are the same for every corpus; files of their tokenizer are relative to ``inputs``.
    """
    from recap.data.byte_pairs import load_byte_pairs

    rule = validate(VocabularyConfig, dict(rule), "vocabulary") if isinstance(rule, Mapping) else rule
    vocabulary: AnyVocabulary
    if isinstance(rule, BytePairRule):
        vocabulary = load_byte_pairs(rule.tokenizer, inputs=inputs, max_length=rule.max_length)
    else:
        tokens = Corpus.read(corpus).each_token_list(None if rule.splits == "all" else rule.splits)
        vocabulary = Vocabulary.build(tokens, min_count=rule.min_count, max_length=rule.max_length, splits=rule.splits)
    vocabulary.save(out)
    checksums.record(out)
    return vocabulary
