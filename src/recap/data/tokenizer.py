"""From raw captions to words, as Karpathy's files do it, and from reports to words and ends of sentences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

_APOSTROPHES = re.compile("['\u2019]")
_WORD = re.compile(r"[^\W_]+")
_VARIATION_SELECTORS = frozenset("\u180b\u180c\u180d\u180f" + "".join(map(chr, range(0xFE00, 0xFE10))))
# Exactly what str.splitlines takes for a line's end: one of these in a caption shifts every later caption of a
# tokeniser that reads one caption per line.
_LINE_BREAKS = re.compile("[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]+")


def tokenize(caption: str) -> list[str]:
    """Return the lower-case words of a caption.

    Apostrophes vanish, every other character that is no letter, mark of a letter or digit (punctuation, emoji, control
    characters) parts words; this gives the tokens of all 40,000 captions of dataset_flickr8k.json.
    """
    if caption.isascii():
        return _WORD.findall(_APOSTROPHES.sub("", caption.lower()))
    caption = _APOSTROPHES.sub("", unicodedata.normalize("NFC", caption).lower())
    # A joiner after a mark shapes letters and parts no words (Sinhala, Bengali).
    caption = re.sub(f"(?<=[{marks()}])[\u200c\u200d]", "", caption)
    return re.findall(rf"[^\W_]+(?:[{marks()}]+[^\W_]*)*", caption)


@cache
def marks() -> str:
    """Return the combining marks of all scripts, such as the vowels of Hindi, which belong to the letter before."""
    characters = map(chr, range(0x300, 0x20000))
    return "".join(c for c in characters if unicodedata.category(c) in ("Mn", "Mc") and c not in _VARIATION_SELECTORS)


def clean_tokens(tokens: Sequence[str]) -> list[str]:
    """Return tokens of a file in lower case, without white space, control characters or empty words in them."""
    words = " ".join(tokens).lower().split()
    return [word for part in words for word in ([part] if part.isprintable() else tokenize(part))]


def is_storable(text: str) -> bool:
    """Say whether a text can be written as UTF-8: half of a surrogate pair, which JSON may hold, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def one_line(caption: str) -> str:
    """Return the caption with each run of line-break characters turned into one space; all else is kept."""
    return _LINE_BREAKS.sub(" ", caption)


STOP = "."  # a word of a report: the end of a sentence
# "1. Lungs clear. 2. ..." and "1) ...": numbers that count the sentences say nothing of the picture.
_COUNTING = re.compile(r"(?:(?<=^)|(?<=[.:;?!]\s))\d{1,2}[.)]\s+(?=\D)")
_END = re.compile(r"[.?!]+(?=\s|$)")
_DECIMAL = re.compile(r"(\d+(?:\.\d+)+)")


def tokenize_report(report: str) -> list[str]:
    """Return the lower-case words of a report, with ``.`` as a separate word at the end of each sentence.

    Numbers that count sentences are dropped, decimal numbers stay whole (``2.5``), all other punctuation parts words
    and vanishes, and the collection's ``XXXX`` for what was blacked out stays as ``xxxx``. A model can so learn where
    a sentence ends; the scorers remove the stops again.
    """
    words: list[str] = []
    for sentence in _END.split(_COUNTING.sub("", " ".join(report.split()))):
        # Every second part is a decimal number.
        parts = enumerate(_DECIMAL.split(sentence))
        own = [word for place, part in parts for word in ([part] if place % 2 else tokenize(part))]
        words += [*own, STOP] if own else []
    return words
