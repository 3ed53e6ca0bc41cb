"""METEOR's table of paraphrases without the entries that cannot match.

The jar reads all five million entries, which takes it most of its time; a corpus can match only those of which both
phrases stand in its captions.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator
from itertools import compress
from pathlib import Path

_LONGEST = 7  # words of a phrase in the table
_PIECES = re.compile(r"\w+")
_CHUNK = 1 << 22  # bytes


def write_matching(table: Path, texts: Iterable[str], out: Path) -> None:
    """Write the entries whose phrases stand in the texts; METEOR gives the texts the same scores with these.

    Args:
        table: gzip; three lines an entry: its probability, a phrase, and the paraphrase of it.
        texts: tokenized captions and references.
        out: the same format.
    """
    known = _phrases(texts)
    with gzip.open(table) as source, gzip.open(out, "wb", compresslevel=1) as target:
        rest = b""
        while chunk := source.read(_CHUNK):  # split at once: reading line by line takes four times as long
            lines = (rest + chunk).split(b"\n")
            whole = (len(lines) - 1) // 3 * 3
            rest = b"\n".join(lines[whole:])
            for place in compress(range(0, whole, 3), map(known.__contains__, lines[1:whole:3])):
                if lines[place + 2] in known:
                    target.write(b"\n".join([*lines[place : place + 3], b""]))


def _phrases(texts: Iterable[str]) -> set[bytes]:
    """Return every phrase of the texts: of their words, and of these without punctuation, at which METEOR splits."""
    forms = {tuple(words) for text in texts for words in _forms(text.lower())}
    return {phrase.encode() for words in forms for phrase in _n_grams(words)}


def _forms(text: str) -> Iterator[list[str]]:
    """Yield the words of a text, and its runs of letters and digits."""
    yield text.split()
    yield _PIECES.findall(text)


def _n_grams(words: tuple[str, ...]) -> Iterator[str]:
    """Yield the phrases of up to as many words as one in the table may have."""
    for start in range(len(words)):
        for end in range(start + 1, min(len(words), start + _LONGEST) + 1):
            yield " ".join(words[start:end])
