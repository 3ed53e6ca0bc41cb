"""What every vocabulary has and can do, whatever its tokens are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

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
