"""Vocabularies: words of the training captions, or GPT-2's byte pairs, as ids;
captions as ids, in arrays, and back.

This is the only file that knows the `tokenizers` library.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, groupby, pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recap.core import checksums
from recap.core.documents import read_json, write_json
from recap.core.errors import DamagedData, DataError, first_line
from recap.core.files import reading
from recap.core.hashing import value_hash
from recap.data.corpus import Corpus
from recap.settings.base import HUB
from recap.settings.datasets import BytePairRule, VocabularyConfig, VocabularyRule
from recap.settings.params import validate

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Ints = NDArray[np.int64]
PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
BANNED = (PAD, BOS, UNK)  # never part of a decoded caption


class AnyVocabulary(ABC):
    """Token ids of captions: 0 <pad>, 1 <bos>, 2 <eos>, 3 <unk>, then those of this vocabulary."""

    def __init__(self, tokens: Sequence[Any], rule: Mapping[str, Any], **content: Any) -> None:
        self.rule = dict(rule)  # the settings that it was made by
        # captions are cut to this many tokens by `encode`
        self.max_length: int = self.rule["max_length"]
        self.hash = value_hash({"rule": self.rule, **content})  # 16 hex digits
        self._content = content  # words, or the JSON of a tokenizer
        self._tokens = list(tokens)
        self._ids = {token: number for number, token in enumerate(tokens, start=len(SPECIAL))}

    def __len__(self) -> int:
        return len(SPECIAL) + len(self._tokens)

    @abstractmethod
    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Return the ids of the words of a caption; no BOS, no EOS."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text up to the first EOS; PAD and BOS are skipped, UNK reads ``<unk>``."""
        before = takewhile(lambda number: number != EOS, map(int, ids))
        numbers = [number for number in before if number not in (PAD, BOS)]
        parts: list[str] = []
        for unknown, group in groupby(numbers, key=lambda number: number == UNK):
            places = [number - len(SPECIAL) for number in group]
            parts += [SPECIAL[UNK]] * len(places) if unknown else [self.text(places)]
        return " ".join(" ".join(parts).split())

    @abstractmethod
    def text(self, places: list[int]) -> str:
        """Return the text of adjacent tokens, given by their places after the special ones."""

    def save(self, path: str | Path) -> None:
        """Write the vocabulary as JSON, atomically; the file needs no other."""
        # The text of a tokenizer is hashed as its library writes it,
        # and saved as the values that it holds.
        values = {
            key: json.loads(value) if isinstance(value, str) else value
            for key, value in self._content.items()
        }
        write_json(path, {"rule": self.rule, "hash": self.hash, **values})


class Vocabulary(AnyVocabulary):
    """Ids 0 <pad>, 1 <bos>, 2 <eos>, 3 <unk>, then ``words`` by falling count, then by spelling."""

    def __init__(self, words: Sequence[str], rule: Mapping[str, Any]) -> None:
        self.words = list(words)
        super().__init__(self.words, rule, words=self.words)

    @classmethod
    def build(
        cls, token_lists: Iterable[Sequence[str]], *, min_count: int, max_length: int, splits: str
    ) -> Vocabulary:
        """Count lower-case words of whole captions; keep those seen ``min_count`` times or more."""
        counts = Counter(map(str.lower, chain.from_iterable(token_lists)))
        # A caption that spells "<eos>" must not end itself.
        words = [
            word for word, count in counts.items() if count >= min_count and word not in SPECIAL
        ]
        if not words:
            raise DataError(
                f"vocabulary: none of {len(counts)} words is seen {min_count} times; lower "
                "min_count"
            )
        words.sort(key=lambda word: (-counts[word], word))
        return cls(words, {"min_count": min_count, "max_length": max_length, "splits": splits})

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Return the ids of the first ``max_length`` words, UNK for unknown ones.

        No BOS, no EOS.
        """
        return [self._ids.get(token.lower(), UNK) for token in tokens[: self.max_length]]

    def text(self, places: list[int]) -> str:
        """Return the words, separated by spaces."""
        return " ".join(self.words[place] for place in places)


# ---- byte pairs

SPACE = "\u0120"  # as byte pairs spell it
# letters whose UTF-8 has every byte that one can have
_EVERY_BYTE = "".join(map(chr, [*range(0x800), *range(0x800, 0xD000, 0x800), 0xE000, 0x10FFFF]))
# GPT-2's pieces for <pad>, <bos>, <eos> and <unk>, in the order of their ids here.
SPECIAL_PIECES = ("+=", "<?", "<|endoftext|>", "<|endoftext|>")


class BytePairVocabulary(AnyVocabulary):
    """Ids 0 <pad>, 1 <bos>, 2 <eos>, 3 <unk> as everywhere,
    then GPT-2's pieces in their order but for SPECIAL_PIECES.

    The special pieces get no second id, so that a tied embedding duplicates no row beside <eos> and
    <unk>.
    """

    def __init__(self, tokenizer: Tokenizer, rule: Mapping[str, Any]) -> None:
        numbers = tokenizer.get_vocab()
        # Before the library writes the tokenizer, which fills a gap number by number.
        if sorted(numbers.values()) != list(range(len(numbers))):
            raise DataError(
                "byte pairs: the pieces are not numbered from 0 without a gap; take GPT-2's own "
                "vocab.json"
            )
        self.tokenizer = tokenizer
        special = {numbers[piece] for piece in SPECIAL_PIECES if piece in numbers}
        pieces = [number for number in range(len(numbers)) if number not in special]
        super().__init__(pieces, rule, tokenizer=tokenizer.to_str())

    @property
    def rows(self) -> list[int]:
        """The row of GPT-2's word table for every id, so that its weights can be taken over."""
        numbers = self.tokenizer.get_vocab()
        if not numbers.keys() >= {*SPECIAL_PIECES}:
            raise DataError(
                f"byte pairs: one of the pieces {', '.join(SPECIAL_PIECES)} is missing, so they "
                "are not GPT-2's; take its files"
            )
        return [*(numbers[piece] for piece in SPECIAL_PIECES), *self._tokens]

    @property
    def begins_word(self) -> list[bool]:
        """Whether each id is a piece that begins a word after the first
        of a caption, so that a space precedes it."""
        pieces = (str(self.tokenizer.id_to_token(number)) for number in self._tokens)
        return [False] * len(SPECIAL) + [piece.startswith(SPACE) for piece in pieces]

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Return the ids of the pieces of all words,
        in lower case and separated by spaces; no BOS, no EOS.

        Whoever adds EOS does so after the last piece: the number of pieces, not of words, is the
        length. (Cut at the number of words, captions whose words have several pieces lose their
        end.) More than ``max_length`` pieces are cut between two words.
        """
        pieces = self.tokenizer.encode(" ".join(tokens).lower(), add_special_tokens=False)
        end = len(pieces.ids)
        if end > self.max_length:
            end = self.max_length
            while end and not pieces.tokens[end].startswith(SPACE):
                end -= 1
        return [self._ids.get(number, UNK) for number in pieces.ids[: end or self.max_length]]

    def text(self, places: list[int]) -> str:
        """Return the pieces as they spell each other."""
        numbers = [self._tokens[place] for place in places]
        return str(self.tokenizer.decode(numbers, skip_special_tokens=False))


def load_byte_pairs(source: str, *, inputs: Path, max_length: int) -> BytePairVocabulary:
    """Load byte pairs from a folder with vocab.json and merges.txt,
    a tokenizer.json, or ``hub:<name>@<commit>``."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    rule = BytePairRule(kind="bpe", tokenizer=source, max_length=max_length)
    files = [inputs / file for file in rule.outside_files()] or [_from_hub(source)]
    with reading(
        files[0],
        DataError,
        missing="fetch GPT-2's vocab.json and merges.txt, or name `hub:openai-community/gpt2`",
    ):
        content = files[0].read_bytes()
    if len(files) == 1:
        tokenizer = _of_json(content, files[0])
    else:
        with _one_sentence(files[0].parent):
            tokenizer = Tokenizer(models.BPE.from_file(*map(str, files)))
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            tokenizer.decoder = decoders.ByteLevel()
    return BytePairVocabulary(tokenizer, rule.model_dump())


def _of_json(content: bytes, path: str | Path) -> Tokenizer:
    """Load what a tokenizer.json holds, without truncation and padding."""
    from tokenizers import Tokenizer

    with _one_sentence(path):
        model = json.loads(content)["model"]
        affixes = model.get("continuing_subword_prefix"), model.get("end_of_word_suffix")
        # the library's earlier versions do not write a type
        if model.get("type", "BPE") != "BPE" or any(affixes):
            raise ValueError("its pieces are not joined as GPT-2's are")
        tokenizer = Tokenizer.from_buffer(content)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.decode(tokenizer.encode(_EVERY_BYTE).ids)
    return tokenizer


@contextmanager
def _one_sentence(path: str | Path) -> Iterator[None]:
    """Turn whatever the library raises, also panics, into one sentence."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise DataError(
            f"{path}: holds no byte pairs ({first_line(error)}); fetch or make the file again"
        ) from error


def _from_hub(name: str) -> Path:
    """Return the tokenizer.json of hub:NAME or hub:NAME@REVISION."""
    from huggingface_hub import hf_hub_download

    repository, _, revision = name.removeprefix(HUB).partition("@")
    try:
        return Path(hf_hub_download(repository, "tokenizer.json", revision=revision or None))
    except Exception as error:  # the library raises a dozen kinds, its own and of its transports
        raise DataError(
            f"{name}: cannot be fetched ({first_line(error)}); without a network, name a "
            "folder with vocab.json and merges.txt"
        ) from error


# ---- captions of a training as ids


class CaptionIds(Mapping[int, list[list[int]]]):
    """Image id -> token ids of each caption.

    Image ids rise, the captions of an image are in the order given.
    """

    def __init__(
        self, image_ids: Ints, first: Ints, starts: Ints, tokens: NDArray[np.int32]
    ) -> None:
        self.image_ids = image_ids  # rising [I]
        # place of each image's first caption, and the number of captions [I + 1]
        self.first = first
        # place in `tokens` of each caption's first token, and the number of tokens [R + 1]
        self.starts = starts
        self.tokens = tokens  # ids of all captions, one after the other, int32 [N]

    @classmethod
    def of(cls, captions: Mapping[int, Sequence[Sequence[int]]]) -> CaptionIds:
        """Return captions that are given as lists, or as they are if they are arrays."""
        if isinstance(captions, CaptionIds):
            return captions
        ids = sorted(captions)
        rows = list(chain.from_iterable(captions[image] for image in ids))
        counts = np.fromiter((len(captions[image]) for image in ids), np.int64, len(ids))
        lengths, tokens = joined(rows)
        return cls(np.array(ids, np.int64), _starts(counts), _starts(lengths), tokens)

    @classmethod
    def by_image(
        cls, image_of: Ints, lengths: Ints, tokens: NDArray[np.int32], rows: Ints
    ) -> CaptionIds:
        """Sort some rows of captions, given by image [R], length [R] and tokens [N], by image."""
        rows = rows[np.argsort(image_of[rows], kind="stable")]
        image_ids, counts = np.unique(image_of[rows], return_counts=True)
        starts = _starts(lengths)
        places = ranges(starts[rows], starts[rows + 1])
        return cls(image_ids, _starts(counts), _starts(lengths[rows]), tokens[places])

    def __getitem__(self, image: int) -> list[list[int]]:
        (place,) = self.places([image]).tolist()
        bounds = self.starts[self.first[place] : self.first[place + 1] + 1].tolist()
        return [self.tokens[low:high].tolist() for low, high in pairwise(bounds)]

    def __iter__(self) -> Iterator[int]:
        return iter(self.image_ids.tolist())

    def __len__(self) -> int:
        return len(self.image_ids)

    def places(self, images: Iterable[int]) -> Ints:
        """Return the places of images in `image_ids`, [B]."""
        wanted = np.fromiter(images, np.int64)
        places = np.searchsorted(self.image_ids, wanted)
        present = np.append(self.image_ids, -1)[places] == wanted
        if not present.all():
            raise KeyError(int(wanted[~present][0]))
        return places

    def ended(self, token: int) -> CaptionIds:
        """Return the captions with a token after the last of each."""
        tokens = np.insert(self.tokens, self.starts[1:], token)
        return CaptionIds(
            self.image_ids, self.first, self.starts + np.arange(len(self.starts)), tokens
        )

    def flat(self, rows: Ints) -> tuple[Ints, NDArray[np.int32]]:
        """Return the lengths [R] and tokens [N] of some captions, given by row."""
        low, high = self.starts[rows], self.starts[rows + 1]
        return high - low, self.tokens[ranges(low, high)]


def joined(captions: Sequence[Sequence[int]]) -> tuple[Ints, NDArray[np.int32]]:
    """Return the lengths [R] and tokens [N] of captions."""
    lengths = np.fromiter(map(len, captions), np.int64, len(captions))
    return lengths, np.fromiter(chain.from_iterable(captions), np.int32, int(lengths.sum()))


def padded(lengths: Ints, tokens: NDArray[np.integer], *, longest: int) -> Ints:
    """Return captions of lengths [R] and tokens [N] as [R, longest], zeros after their tokens."""
    captions = np.zeros((len(lengths), longest), np.int64)
    captions[np.arange(longest) < lengths[:, None]] = tokens
    return captions


def ranges(low: Ints, high: Ints) -> Ints:
    """Return the concatenation of arange(low[i], high[i])."""
    lengths = high - low
    offsets = np.repeat(low - (np.cumsum(lengths) - lengths), lengths)
    return np.arange(len(offsets)) + offsets


def _starts(lengths: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(lengths)])


# ---- files


@dataclass(frozen=True)
class _Saved:
    """What a file of a vocabulary holds."""

    rule: VocabularyConfig
    hash: str
    words: list[str] | None = None
    tokenizer: dict[str, Any] | None = None


def load_vocabulary(path: str | Path) -> AnyVocabulary:
    """Read a vocabulary file of any kind."""
    checksums.check(Path(path))
    saved: _Saved = read_json(path, _Saved)
    rule = saved.rule.model_dump()
    vocabulary: AnyVocabulary = Vocabulary(saved.words or [], rule)
    if isinstance(saved.rule, BytePairRule):
        tokenizer = _of_json(json.dumps(saved.tokenizer).encode(), path)
        vocabulary = BytePairVocabulary(tokenizer, rule)
    if vocabulary.hash != saved.hash:
        raise DamagedData(
            f"{path}: its tokens do not match their hash; delete it and repeat the command that "
            "makes it"
        )
    return vocabulary


def build_vocabulary(
    *,
    corpus: Path,
    rule: dict[str, Any] | VocabularyRule | BytePairRule,
    inputs: Path,
    out: Path,
) -> AnyVocabulary:
    """Build the vocabulary of a corpus file by its rule, write it to ``out`` and return it."""
    checked: VocabularyConfig = validate(VocabularyConfig, rule, "vocabulary")
    vocabulary: AnyVocabulary
    if isinstance(checked, BytePairRule):
        vocabulary = load_byte_pairs(
            checked.tokenizer, inputs=inputs, max_length=checked.max_length
        )
    else:
        splits = checked.splits
        tokens = Corpus.read(corpus).token_lists(None if splits == "all" else splits)
        vocabulary = Vocabulary.build(
            tokens, min_count=checked.min_count, max_length=checked.max_length, splits=splits
        )
    vocabulary.save(out)
    checksums.record(out)
    return vocabulary
