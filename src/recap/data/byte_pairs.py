"""GPT-2's byte pairs as a vocabulary (the only file that knows the `tokenizers` library)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from recap.core.documents import write_json
from recap.core.errors import DamagedData, DataError, MissingData, first_line
from recap.core.hashing import value_hash
from recap.data.vocabulary import SPECIAL, UNK, caption_part
from recap.settings.base import HUB
from recap.settings.datasets import BytePairRule
from recap.settings.params import validate

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPACE = "\u0120"  # as byte pairs spell it
_EVERY_BYTE = "".join(map(chr, (*range(256), *range(0x100, 0x800, 64), *range(0x800, 0xD000, 0x800), 0xE000, 0x10FFFF)))
# GPT-2's pieces for <pad>, <bos>, <eos> and <unk>, in the order of their ids here.
SPECIAL_PIECES = ("+=", "<?", "<|endoftext|>", "<|endoftext|>")


@dataclass(frozen=True)
class _Model:
    """The part of a tokenizer.json that says how pieces are joined; other kinds and affixes are not GPT-2's."""

    type: Literal["BPE"] = "BPE"  # files of earlier versions do not say it
    continuing_subword_prefix: Literal["", None] = None
    end_of_word_suffix: Literal["", None] = None


@dataclass(frozen=True)
class _Tokenizer:
    model: _Model


@dataclass(frozen=True)
class _Saved:
    """What a file of byte pairs holds."""

    tokenizer: _Tokenizer
    rule: BytePairRule
    hash: str


class BytePairVocabulary:
    """Ids 0 <pad>, 1 <bos>, 2 <eos>, 3 <unk> as everywhere, then GPT-2's pieces in their order but for SPECIAL_PIECES.

    The special pieces get no second id, so that a tied embedding duplicates no row beside <eos> and <unk>.
    """

    def __init__(self, tokenizer: Tokenizer, rule: Mapping[str, Any]) -> None:
        """Take a byte-level tokenizer and the rule it came by."""
        self.tokenizer = tokenizer
        self.rule = dict(rule)
        self.max_length: int = self.rule["max_length"]
        numbers = tokenizer.get_vocab()
        if sorted(numbers.values()) != list(range(len(numbers))):
            raise DataError("byte pairs: the pieces are not numbered from 0 without a gap; take GPT-2's own vocab.json")
        self.hash = value_hash({"rule": self.rule, "tokenizer": tokenizer.to_str()})
        special = {numbers[piece] for piece in SPECIAL_PIECES if piece in numbers}
        self._pieces = [number for number in range(len(numbers)) if number not in special]
        self._ids = {number: place for place, number in enumerate(self._pieces, start=len(SPECIAL))}

    @classmethod
    def from_values(cls, values: Mapping[str, Any], path: str | Path) -> BytePairVocabulary:
        """Build from what `save` wrote."""
        saved: _Saved = validate(_Saved, dict(values), str(path))
        vocabulary = cls(_of_json(json.dumps(values["tokenizer"]).encode(), path), saved.rule.model_dump())
        if vocabulary.hash != saved.hash:
            raise DamagedData(
                f"{path}: the byte pairs do not match their hash; delete it and repeat the command that makes it"
            )
        return vocabulary

    def save(self, path: str | Path) -> None:
        """Write rule, tokenizer and hash as JSON, atomically; the file needs no other."""
        write_json(path, {"rule": self.rule, "tokenizer": json.loads(self.tokenizer.to_str()), "hash": self.hash})

    def __len__(self) -> int:
        return len(SPECIAL) + len(self._pieces)

    @property
    def rows(self) -> list[int]:
        """The row of GPT-2's word table for every id, so that its weights can be taken over."""
        numbers = self.tokenizer.get_vocab()
        missing = [piece for piece in SPECIAL_PIECES if piece not in numbers]
        if missing:
            raise DataError(f"byte pairs: there is no piece {missing[0]!r}, so they are not GPT-2's; take its files")
        return [*(numbers[piece] for piece in SPECIAL_PIECES), *self._pieces]

    @property
    def begins_word(self) -> list[bool]:
        """Whether each id is a piece that begins a word after the first of a caption, so that a space precedes it."""
        pieces = (str(self.tokenizer.id_to_token(number)) for number in self._pieces)
        return [False] * len(SPECIAL) + [piece.startswith(SPACE) for piece in pieces]

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Return the ids of the pieces of all words, in lower case and separated by spaces; no BOS, no EOS.

        Whoever adds EOS does so after the last piece: the number of pieces, not of words, is the length. (Cut at
        the number of words, captions whose words have several pieces lose their end.) More than
        ``max_length`` pieces are cut between two words.
        """
        pieces = self.tokenizer.encode(" ".join(tokens).lower(), add_special_tokens=False)
        end = len(pieces.ids)
        if end > self.max_length:
            starts = [place for place in range(1, self.max_length + 1) if pieces.tokens[place].startswith(SPACE)]
            end = starts[-1] if starts else self.max_length
        return [self._ids.get(number, UNK) for number in pieces.ids[:end]]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the pieces up to the first EOS; PAD and BOS are skipped, UNK reads ``<unk>``."""
        parts: list[str] = []
        for unknown, numbers in groupby(caption_part(ids, len(self)), key=lambda number: number == UNK):
            if unknown:
                parts += [SPECIAL[UNK]] * len(list(numbers))
            else:
                pieces = [self._pieces[number - len(SPECIAL)] for number in numbers]
                parts.append(self.tokenizer.decode(pieces, skip_special_tokens=False))
        return " ".join(" ".join(parts).split())


def load_byte_pairs(source: str, *, inputs: Path, max_length: int) -> BytePairVocabulary:
    """Load byte pairs from a folder with vocab.json and merges.txt, a tokenizer.json, or ``hub:<name>@<commit>``."""
    rule = BytePairRule(kind="bpe", tokenizer=source, max_length=max_length)
    files = [inputs / file for file in rule.outside_files()]
    for file in files:
        if not file.is_file():
            raise MissingData(
                f"{file}: no such file; fetch GPT-2's vocab.json and merges.txt into one folder, or say "
                "`tokenizer: hub:openai-community/gpt2@COMMIT`"
            )
    if len(files) == 2:
        tokenizer = _of_words_and_merges(*files)
    else:
        path = files[0] if files else _from_hub(source.removeprefix(HUB))
        tokenizer = _of_json(path.read_bytes(), path)
    return BytePairVocabulary(tokenizer, rule.model_dump())


def _of_words_and_merges(vocabulary: Path, merges: Path) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    with _one_sentence(vocabulary.parent):
        tokenizer = Tokenizer(models.BPE.from_file(str(vocabulary), str(merges)))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _of_json(content: bytes, path: str | Path) -> Tokenizer:
    """Load what a tokenizer.json holds, without truncation and padding."""
    from tokenizers import Tokenizer

    with _one_sentence(path):
        values = json.loads(content)
    validate(_Tokenizer, values, str(path))
    with _one_sentence(path):
        tokenizer = Tokenizer.from_buffer(content)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.decode(tokenizer.encode(_EVERY_BYTE).ids)
    return tokenizer


@contextmanager
def _one_sentence(path: str | Path) -> Iterator[None]:
    """Turn whatever the library raises into one sentence: plain exceptions, and panics, which are none."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise DataError(f"{path}: holds no byte pairs ({first_line(error)}); fetch or make the file again") from error


def _from_hub(name: str) -> Path:
    """Return the tokenizer.json of NAME or NAME@REVISION."""
    from huggingface_hub import hf_hub_download

    repository, _, revision = name.partition("@")
    try:
        return Path(hf_hub_download(repository, "tokenizer.json", revision=revision or None))
    except Exception as error:  # the library raises a dozen kinds, its own and of its transports
        raise DataError(
            f"{HUB}{name}: cannot be fetched ({first_line(error)}); without a network, name a folder with vocab.json "
            "and merges.txt"
        ) from error
