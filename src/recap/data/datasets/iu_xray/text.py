"""From a radiology report to words: several sentences, numbers with decimals, placeholders of what was blacked out."""

from __future__ import annotations

import re

from recap.data.vocabulary.text import tokenize

# "1. Lungs clear. 2. ..." and "1) ...": numbers that count the sentences say nothing of the picture.
_COUNTING = re.compile(r"(?:(?<=^)|(?<=[.:;?!]\s))\d{1,2}[.)]\s+(?=\D)")
_END = re.compile(r"[.?!]+(?=\s|$)")
_DECIMAL = re.compile(r"\d+(?:\.\d+)+")
STOP = "."


def tokenize_report(report: str) -> list[str]:
    """Return the lower-case words of a report, with ``.`` as a separate word at the end of each sentence.

    Numbers that count sentences are dropped, decimal numbers stay whole (``2.5``), all other punctuation parts words
    and vanishes, and the collection's ``XXXX`` for what was blacked out stays as ``xxxx``. A model can so learn where
    a sentence ends; the scorers remove the stops again.
    """
    words: list[str] = []
    for sentence in _END.split(_COUNTING.sub("", " ".join(report.split()))):
        found = _words(sentence)
        if found:
            words += [*found, STOP]
    return words


def _words(sentence: str) -> list[str]:
    words: list[str] = []
    start = 0
    for number in _DECIMAL.finditer(sentence):
        words += [*tokenize(sentence[start : number.start()]), number.group()]
        start = number.end()
    return words + tokenize(sentence[start:])
