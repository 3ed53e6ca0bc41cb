"""What every vocabulary offers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol


class AnyVocabulary(Protocol):
    """Turns the words of a caption into token ids and back; ids 0 to 3 are <pad>, <bos>, <eos>, <unk>."""

    @property
    def max_length(self) -> int:
        """The most tokens that `encode` gives."""

    @property
    def hash(self) -> str:
        """Changes with the ids of any word."""

    def __len__(self) -> int: ...

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Return the token ids of a caption's words, without <bos> and <eos>, at most `max_length`."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the caption of token ids."""

    def save(self, path: str | Path) -> None:
        """Write the vocabulary to a file."""
