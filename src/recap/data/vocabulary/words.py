"""Vocabularies of whole words: which words of the training captions have an id, and captions as ids and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from recap.core import checksums
from recap.core.documents import read_json, write_json
from recap.core.errors import DamagedData, DataError
from recap.core.hashing import value_hash
from recap.data.corpus.corpus import Corpus
from recap.data.vocabulary.base import BANNED, BOS, EOS, PAD, SPECIAL, UNK, AnyVocabulary
from recap.data.vocabulary.bpe import BytePairVocabulary, load_byte_pairs
from recap.settings.datasets import BytePairRule, VocabularyConfig, VocabularyRule
from recap.settings.params import validate

__all__ = [
    "BANNED",
    "BOS",
    "EOS",
    "PAD",
    "SPECIAL",
    "UNK",
    "AnyVocabulary",
    "Vocabulary",
    "build_vocabulary",
    "load_vocabulary",
]


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
        kept = [(word, count) for word, count in counts.items() if count >= min_count and word not in SPECIAL]
        if not kept:
            raise DataError(f"vocabulary: none of {len(counts)} words is seen {min_count} times; lower min_count")
        words = [word for word, _ in sorted(kept, key=lambda item: (-item[1], item[0]))]
        return cls(words, {"min_count": min_count, "max_length": max_length, "splits": splits})

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read a vocabulary file."""
        return cls.from_values(_checked(path), path)

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
        words = []
        for number in map(int, ids):
            if number == EOS:
                break
            if not 0 <= number < len(self):
                raise DataError(f"id {number} is not in the vocabulary of {len(self)}; use the one it was trained with")
            if number not in (PAD, BOS):
                words.append(SPECIAL[UNK] if number == UNK else self.words[number - len(SPECIAL)])
        return " ".join(words)


def load_vocabulary(path: str | Path) -> AnyVocabulary:
    """Read a vocabulary file of any kind."""
    values = _checked(path)
    if isinstance(values, dict) and "tokenizer" in values:
        return BytePairVocabulary.from_values(values, path)
    return Vocabulary.from_values(values, path)


def _checked(path: str | Path) -> Any:
    checksums.check(Path(path))
    return read_json(path)


def build_vocabulary(
    *, corpus: Path, rule: Mapping[str, Any] | VocabularyRule | BytePairRule, inputs: Path, out: Path
) -> AnyVocabulary:
    """Build the vocabulary of a corpus file by a data set's rule, write it to ``out`` and return it.

    Byte pairs are the same for every corpus; files of their tokenizer are relative to ``inputs``.
    """
    rule = validate(VocabularyConfig, dict(rule), "vocabulary") if isinstance(rule, Mapping) else rule
    vocabulary: AnyVocabulary
    if isinstance(rule, BytePairRule):
        vocabulary = load_byte_pairs(rule.tokenizer, inputs=inputs, max_length=rule.max_length)
    else:
        tokens = Corpus.read(corpus).each_token_list(None if rule.splits == "all" else rule.splits)
        counts = {"min_count": rule.min_count, "max_length": rule.max_length}
        vocabulary = Vocabulary.build(tokens, splits=rule.splits, **counts)
    vocabulary.save(out)
    checksums.record(out)
    return vocabulary
