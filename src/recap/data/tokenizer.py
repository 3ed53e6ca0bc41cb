"""From captions to words, as Karpathy's files do it; from reports to words and ends of sentences.

Kinds of words.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import chain

from recap.core.errors import ConfigError

_APOSTROPHES = re.compile("['\u2019]")
_WORD = re.compile(r"[^\W_]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_VARIATION_SELECTORS = frozenset(
    "\u180b\u180c\u180d\u180f" + "".join(map(chr, range(0xFE00, 0xFE10)))
)
# Exactly what str.splitlines takes for a line's end: one of these in a caption shifts every later
# caption of a tokeniser that reads one caption per line.
_LINE_BREAKS = re.compile("[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]+")


def tokenize(caption: str) -> list[str]:
    """Return the lower-case words of a caption.

    Apostrophes vanish, every other character that is no letter, mark of a letter or digit
    (punctuation, emoji, control characters) parts words; this gives the tokens of all 40,000
    captions of dataset_flickr8k.json.
    """
    if caption.isascii():
        return _WORD.findall(_APOSTROPHES.sub("", caption.lower()))
    caption = _APOSTROPHES.sub("", unicodedata.normalize("NFC", caption).lower())
    # A joiner after a mark shapes letters and parts no words (Sinhala, Bengali).
    caption = re.sub(f"(?<=[{marks()}])[\u200c\u200d]", "", caption)
    return re.findall(rf"[^\W_]+(?:[{marks()}]+[^\W_]*)*", caption)


@cache
def marks() -> str:
    """Return the combining marks of all scripts, such as the vowels of Hindi."""
    characters = {chr(code) for code in range(0x300, 0x20000)} - _VARIATION_SELECTORS
    return "".join(c for c in sorted(characters) if unicodedata.category(c) in ("Mn", "Mc"))


def clean_tokens(tokens: Sequence[str]) -> list[str]:
    """Return tokens of a file in lower case, without white space and control characters."""
    words = []
    for part in " ".join(tokens).lower().split():
        words += [part] if part.isprintable() else tokenize(part)
    return words


def is_storable(text: str) -> bool:
    """Say whether UTF-8 can hold a text: half of a surrogate pair, which JSON may have, not."""
    return _SURROGATE.search(text) is None


def one_line(caption: str) -> str:
    """Return the caption with each run of line-break characters turned into one space.

    All else is kept.
    """
    return _LINE_BREAKS.sub(" ", caption)


STOP = "."  # a word of a report: the end of a sentence
# "1. Lungs clear. 2. ..." and "1) ...": numbers that
# count the sentences say nothing of the picture.
_COUNTING = re.compile(r"(?:(?<=^)|(?<=[.:;?!]\s))\d{1,2}[.)]\s+(?=\D)")
_END = re.compile(r"[.?!]+(?=\s|$)")
_DECIMAL = re.compile(r"(\d+(?:\.\d+)+)")


def tokenize_report(report: str) -> list[str]:
    """Return the lower-case words of a report,
    with ``.`` as a separate word at the end of each sentence.

    Numbers that count sentences are dropped, decimal numbers stay whole (``2.5``), all other
    punctuation parts words and vanishes, and the collection's ``XXXX`` for what was blacked out
    stays as ``xxxx``. A model can so learn where a sentence ends; the scorers remove the stops
    again.
    """
    words: list[str] = []
    for sentence in _END.split(_COUNTING.sub("", " ".join(report.split()))):
        own: list[str] = []
        for place, part in enumerate(_DECIMAL.split(sentence)):
            # every second part is a decimal number
            own += [part] if place % 2 else tokenize(part)
        if own:
            words += [*own, STOP]
    return words


# ---- parts of speech

TAGGED = 10_000  # captions, evenly spread over a split, whose words are tagged
TAGGER = "TextBlob's pattern tagger"  # its lexicon and rules come with its package
GET = "pip install 'recap-captions[tagger]'"
# The start of a Penn Treebank tag.
_KINDS = {
    "NNP": "proper nouns", "NN": "nouns", "VB": "verbs", "MD": "verbs", "JJ": "adjectives",
    "RB": "adverbs", "IN": "prepositions", "TO": "prepositions", "DT": "determiners",
    "PDT": "determiners", "PR": "pronouns", "CD": "numbers", "CC": "conjunctions",
}  # fmt: skip
_OTHERS, _PUNCTUATION = "others", "punctuation"


def shares(token_lists: Sequence[Sequence[str]]) -> str:
    """Return a sentence and a list of shares of kinds of words, or how to get the tagger."""
    try:
        kinds = count_kinds(tag(token_lists))
    except ConfigError:
        return (
            f"No tagger is installed, so they are not counted: `{GET}`, delete this card and "
            "repeat the command."
        )
    total = max(1, kinds.total())
    rows = [f"- {kind}: {100 * count / total:.1f} %" for kind, count in kinds.most_common()]
    return "\n".join([f"Tagged by {TAGGER}.", "", *rows])


def tag(token_lists: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return the Penn Treebank tags of sentences; empty ones are left out."""
    if find_spec("textblob") is None:
        raise ConfigError(f"parts of speech: no tagger is installed; {GET}")
    from textblob.en.taggers import PatternTagger

    model = PatternTagger()
    tags = []
    for words in token_lists:
        if words:
            text = " ".join("".join(word.split()) or "-" for word in words)
            tags.append([tag for _, tag in model.tag(text, tokenize=False)])
    return tags


def parts_of_speech() -> list[str]:
    """Return the names of all kinds of words."""
    return [*dict.fromkeys(_KINDS.values()), _OTHERS, _PUNCTUATION]


def kind_of(tag: str) -> str:
    """Return the kind of word of a Penn Treebank tag."""
    if not tag[:1].isalpha():
        return _PUNCTUATION
    return next((kind for start, kind in _KINDS.items() if tag.startswith(start)), _OTHERS)


def count_kinds(tag_lists: Sequence[Sequence[str]]) -> Counter[str]:
    """Count kinds of words from Penn Treebank tags; punctuation is no word."""
    tags = chain.from_iterable(tag_lists)
    return Counter(kind_of(tag) for tag in tags if tag[:1].isalpha())
