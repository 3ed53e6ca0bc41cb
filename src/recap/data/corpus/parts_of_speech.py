"""Shares of nouns, verbs and so on, by whichever tagger is installed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

Tagger = Callable[[Sequence[Sequence[str]]], list[list[str]]]

# The start of a Penn Treebank tag.
_KINDS = {
    "NN": "nouns", "VB": "verbs", "MD": "verbs", "JJ": "adjectives", "RB": "adverbs", "IN": "prepositions",
    "TO": "prepositions", "DT": "determiners", "PDT": "determiners", "PR": "pronouns", "CD": "numbers",
    "CC": "conjunctions",
}  # fmt: skip
HINT = (
    "No tagger is installed, so they are not counted: `pip install nltk` and "
    "`python -m nltk.downloader averaged_perceptron_tagger_eng`, or `pip install spacy` and "
    "`python -m spacy download en_core_web_sm`"
)


def shares(token_lists: Sequence[Sequence[str]]) -> str:
    """Return a sentence and a Markdown list with the share of each kind of word, or how to install a tagger."""
    found = tagger()
    if found is None:
        return f"{HINT}, then delete this card and repeat the command."
    name, tag = found
    return f"Tagged by {name}.\n\n{_listed(count_kinds(tag(token_lists)))}"


def tagger() -> tuple[str, Tagger] | None:
    """Return the name of the tagger that is installed and the function that tags sentences, or None."""
    for name, load in (("spaCy en_core_web_sm", _spacy), ("NLTK's averaged perceptron", _nltk)):
        tag = load()
        if tag is not None:
            return name, tag
    return None


def kind_of(tag: str) -> str:
    """Return the kind of word of a Penn Treebank tag."""
    if not tag[:1].isalpha():
        return "punctuation"
    return next((kind for start, kind in _KINDS.items() if tag.startswith(start)), "others")


def count_kinds(tag_lists: Sequence[Sequence[str]]) -> Counter[str]:
    """Count kinds of words from Penn Treebank tags; punctuation is no word."""
    kinds: Counter[str] = Counter()
    for tag in (tag for tags in tag_lists for tag in tags if tag[:1].isalpha()):
        kinds[kind_of(tag)] += 1
    return kinds


def _listed(kinds: Counter[str]) -> str:
    total = max(1, kinds.total())
    return "".join(f"- {kind}: {100 * count / total:.1f} %\n" for kind, count in kinds.most_common()).rstrip()


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


def _nltk() -> Tagger | None:
    try:
        from nltk.tag import PerceptronTagger

        model = PerceptronTagger()
    except (ImportError, LookupError):  # the library, or its model
        return None

    def tag(token_lists: Sequence[Sequence[str]]) -> list[list[str]]:
        return [[tag for _, tag in model.tag(list(words))] for words in token_lists if words]

    return tag
