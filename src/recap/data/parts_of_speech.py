"""Kinds of words: captions tagged by spaCy or TextBlob, whichever is installed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from recap.core.errors import ConfigError

TAGGED = 10_000  # captions, evenly spread over a split, whose words are tagged
Tagger = Callable[[Sequence[Sequence[str]]], list[list[str]]]

# The start of a Penn Treebank tag.
_KINDS = {
    "NNP": "proper nouns", "NN": "nouns", "VB": "verbs", "MD": "verbs", "JJ": "adjectives", "RB": "adverbs",
    "IN": "prepositions", "TO": "prepositions", "DT": "determiners", "PDT": "determiners", "PR": "pronouns",
    "CD": "numbers", "CC": "conjunctions",
}  # fmt: skip
_OTHERS, _PUNCTUATION = "others", "punctuation"
GET = "pip install 'recap[tagger]'"
HINT = (
    f"No tagger is installed, so they are not counted: `{GET}`, or `pip install spacy` and "
    "`python -m spacy download en_core_web_sm`"
)


def shares(token_lists: Sequence[Sequence[str]]) -> str:
    """Return a sentence and a Markdown list with the share of each kind of word, or how to install a tagger."""
    installed = tagger()
    if installed is None:
        return f"{HINT}, then delete this card and repeat the command."
    name, tag = installed
    kinds = count_kinds(tag(token_lists))
    total = max(1, kinds.total())
    rows = [f"- {kind}: {100 * count / total:.1f} %" for kind, count in kinds.most_common()]
    return "\n".join([f"Tagged by {name}.", "", *rows])


def tagger() -> tuple[str, Tagger] | None:
    """Return the name of the tagger that is installed and the function that tags sentences, or None."""
    for name, load in (("spaCy en_core_web_sm", _spacy), ("TextBlob's pattern tagger", _textblob)):
        tag = load()
        if tag is not None:
            return name, tag
    return None


def tagger_name() -> str | None:
    """Return the tagger that is installed, without loading it, which takes seconds."""
    taggers = (["spacy", "en_core_web_sm"], ["textblob"])
    return next((" ".join(packages) for packages in taggers if all(map(find_spec, packages))), None)


def needed_tagger() -> tuple[str, Tagger]:
    """Return the name of the tagger that is installed and the function that tags sentences."""
    installed = tagger()
    if installed is None:
        raise ConfigError(f"parts of speech: {HINT[0].lower()}{HINT[1:]}")
    return installed


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
    return Counter(kind_of(tag) for tags in tag_lists for tag in tags if tag[:1].isalpha())


def _spacy() -> Tagger | None:
    try:
        import spacy
        from spacy.tokens import Doc

        model = spacy.load("en_core_web_sm", exclude=["parser", "ner", "lemmatizer"])
    except (ImportError, OSError):  # the library, or its model
        return None

    def tag(token_lists: Sequence[Sequence[str]]) -> list[list[str]]:
        documents = (Doc(model.vocab, words=list(words)) for words in token_lists if words)
        return [[word.tag_ for word in document] for document in model.pipe(documents)]

    return tag


def _textblob() -> Tagger | None:
    """Return the tagger whose lexicon and rules come with its package."""
    try:
        from textblob.en.taggers import PatternTagger
    except ImportError:
        return None
    model = PatternTagger()

    def tag(token_lists: Sequence[Sequence[str]]) -> list[list[str]]:
        texts = (" ".join("".join(word.split()) or "-" for word in words) for words in token_lists if words)
        return [[tag for _, tag in model.tag(text, tokenize=False)] for text in texts]

    return tag
