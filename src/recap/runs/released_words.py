"""The words of a released model: read from the release's own file, and their rows put in the order of our ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recap.core.documents import read_json
from recap.core.errors import ConfigError, MissingSettings
from recap.data.byte_pairs import load_byte_pairs
from recap.data.files.pickles import read_plain_pickle
from recap.data.tokenizer import is_storable, one_line
from recap.data.vocabulary import BOS, PAD, SPECIAL, AnyVocabulary, Vocabulary
from recap.models.released import Release

NEVER = -1e4  # score of an id that the release does not have: its probability is 0 in every precision
TORCHTEXT = ["<unk>", "<pad>", "<bos>", "<eos>"]  # the first ids of a release in this form
_LINES, _KEYS = (".txt",), ("vocab", "ix_to_word")


def read_vocabulary(path: Path, release: Release, *, max_length: int) -> tuple[AnyVocabulary, list[int]]:
    """Return our vocabulary of a release's words, and the row of the release's tables for each of our ids.

    The file has words, one a line; or is a JSON with `ix_to_word`, a pickle with `vocab` or `itos`, or GPT-2's
    tokenizer (a folder with vocab.json and merges.txt, or tokenizer.json).
    """
    if release.words == "byte_pairs":
        pairs = load_byte_pairs(path.name, inputs=path.parent, max_length=max_length)
        return pairs, pairs.rows
    words = _words(path)
    rule = {"min_count": 1, "max_length": max_length, "splits": "all"}
    if release.words == "torchtext":
        if words[: len(TORCHTEXT)] != TORCHTEXT:
            raise ConfigError(f"{path}: its first words are not {', '.join(TORCHTEXT)}; give the release's own file")
        known, special = words[len(TORCHTEXT) :], [TORCHTEXT.index(name) for name in SPECIAL]
        first = len(TORCHTEXT)
    else:  # id 0 begins, ends and pads; the last word is the unknown one
        known, special, first = words[:-1], [0, 0, 0, len(words)], 1
    return Vocabulary(known, rule), [*special, *range(first, first + len(known))]


def in_our_order(tensors: Mapping[str, Tensor], release: Release, rows: Sequence[int], path: Path) -> dict[str, Tensor]:
    """Return the tensors with their word tables in the order of our ids; a table twice used is two tensors."""
    found = dict(tensors)
    last = max(rows)
    for name in release.tables:
        if name not in tensors:
            continue
        table = tensors[name]
        if len(table) != last + 1:
            raise ConfigError(
                f"{path}: has words for {last + 1:,} rows, and {name!r} of the checkpoint has {len(table):,}; give the "
                "vocabulary that the checkpoint was trained with"
            )
        found[name] = table[torch.tensor(rows)]
        if release.words == "end_first" and name.startswith("output."):
            found[name][[PAD, BOS]] = NEVER if table.dim() == 1 else 0.0  # the release's row 0 stays that of <eos>
    return found


def _words(path: Path) -> list[str]:
    """Return the words of a file in the order of their ids, from the first that it has."""
    if not path.is_file():
        raise MissingSettings(f"{path}: no such file of words")
    if path.suffix in _LINES:
        try:
            words: Any = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        except (UnicodeDecodeError, OSError) as error:
            raise ConfigError(f"{path}: is no text in UTF-8; give the release's own file of words") from error
    else:
        words = _listed(read_plain_pickle(path) if path.suffix == ".pkl" else read_json(path), path)
    wrong = [
        word
        for word in words
        if not (isinstance(word, str) and word.strip() == one_line(word) == word != "" and is_storable(word))
    ]
    if not words or wrong or len(set(words)) != len(words):
        reason = "holds no words" if not words else f"{wrong[0]!r} is no word" if wrong else "a word is duplicated"
        raise ConfigError(f"{path}: {reason}; give the release's own file of words")
    return list(words)


def _listed(values: Any, path: Path) -> list[Any]:
    """Return the words of a list, or of a mapping from ids to words, in what a file holds."""
    keys = [key for key in ("itos", *_KEYS) if isinstance(values, Mapping) and key in values]
    values = values[keys[0]] if keys else values
    if isinstance(values, list):
        return values
    try:
        numbered = {int(str(number)): word for number, word in values.items()}
    except (AttributeError, ValueError) as error:
        raise ConfigError(f"{path}: holds no words by their ids; give the release's own file of words") from error
    first = min(numbered, default=0)
    if sorted(numbered) != list(range(first, first + len(numbered))):
        raise ConfigError(f"{path}: its ids have gaps; give the release's own file of words")
    return [numbered[number] for number in sorted(numbered)]
