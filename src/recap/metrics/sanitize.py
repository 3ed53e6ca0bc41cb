"""Captions that no line-based program can misread."""

from __future__ import annotations

import re
import unicodedata

# Cc: control characters (CR, LF, VT, FF, NUL, NEL ...); Zl and Zp: U+2028 and U+2029; Cs: halves of a UTF-16 pair,
# which cannot be written as UTF-8. Java's tokenizer ends a line at several of them and shifts all later captions.
_BAD_CATEGORIES = frozenset({"Cc", "Zl", "Zp", "Cs"})
_METEOR_SEPARATOR = re.compile(r"\|{3,}")


def sanitize(caption: str) -> str:
    """Return ``caption`` as one line: control characters and METEOR's separator ``|||`` become single spaces.

    Ordinary captions come back unchanged, apart from spaces at both ends; emoji and accents stay.
    """
    cleaned = "".join(" " if unicodedata.category(char) in _BAD_CATEGORIES else char for char in caption)
    return _METEOR_SEPARATOR.sub(" ", cleaned).strip()
