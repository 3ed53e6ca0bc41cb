"""Errors a user can act on, one sentence with the file,
key or id and what to do, and the words that sentences share.

A class is the contract, a sentence is not: classes such as `DataError` say where it happened, those
below them such as `MissingFile` what happened, so that callers need not read the sentence.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence

_LISTED = 8  # likest names in one sentence
_HEAD, _TAIL = (
    400,
    200,
)  # characters of a sentence that a value of a file made longer: where it is, and what to do


class RecapError(Exception):
    """Base of every error shown to the user as one sentence; the command line exits with 2."""

    def __init__(self, sentence: str = "") -> None:
        left_out = len(sentence) - _HEAD - _TAIL
        if left_out > 0:
            sentence = f"{sentence[:_HEAD]} [{left_out:,} characters] {sentence[-_TAIL:]}"
        super().__init__(sentence)


class ConfigError(RecapError):
    """A YAML file holds an unknown key, an unknown name or a value out of range."""


class DataError(RecapError):
    """A caption file, an image or a split is missing or broken."""


class FeatureError(RecapError):
    """A feature store is missing, broken, or lacks an image."""


class TrainingError(RecapError):
    """Training cannot continue: no such device, a state of another run, or no finite numbers."""


class MetricError(RecapError):
    """Captions and references do not fit together, or a scorer failed."""


class UnknownName(ConfigError):
    """There is nothing of this name: a row, a table, a kind, a metric, a module, a key of a run."""


class MissingFile(RecapError):
    """A file or folder is not there.

    With its room: `MissingSettings`, `MissingData`, `MissingFeatures`.
    """


class MissingSettings(MissingFile, ConfigError):
    """A file that settings name, or a file of settings, is not there."""


class MissingData(MissingFile, DataError):
    """A file of captions, pictures, texts or responses is not there."""


class MissingFeatures(MissingFile, FeatureError):
    """A feature store, a file of features or the weights of an extractor is not there."""


class DamagedFile(RecapError):
    """A file is there, and its content is not what it should be.

    With its room: `DamagedData`, `DamagedFeatures`.
    """


class DamagedData(DamagedFile, DataError):
    """A file of captions, pictures, texts or responses cannot be reador does not match its hash."""


class DamagedFeatures(DamagedFile, FeatureError):
    """A feature store, a file of features or the weights of an extractor cannot be read."""


# What a reader raises by its room:
# for a file that is not there, and for one whose content is wrong.
OF_FILES: dict[type[RecapError], tuple[type[RecapError], type[RecapError]]] = {
    RecapError: (MissingFile, DamagedFile),
    ConfigError: (MissingSettings, ConfigError),
    DataError: (MissingData, DamagedData),
    FeatureError: (MissingFeatures, DamagedFeatures),
}


class ChangedFile(RecapError):
    """A finished file has another hash than the one that was noted."""


class InUse(RecapError):
    """Another process holds a folder, a workflow or the GPUs."""


def first_line(error: BaseException) -> str:
    """Return the first line of what an exception says, or its name if it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a phrase that suggests the nearest known name, e.g.

    ``did you mean 'scenes'?``, or lists the likest.
    """
    names = sorted(known)
    if close := difflib.get_close_matches(name, names, n=1):
        return f"did you mean {close[0]!r}?"
    if len(names) <= _LISTED:
        return f"known are: {', '.join(names)}"
    likest = sorted(difflib.get_close_matches(name, names, n=_LISTED, cutoff=0))
    return f"known are: {', '.join(likest)} and {len(names) - _LISTED:,} more"


def counted(number: int, noun: str) -> str:
    """Return ``1 table``, ``2 tables`` or ``1,000 tables``.

    The plural of the noun must end in -s.
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return rows as lines with aligned columns, some to the right.

    A column without any text is left out.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    forms = {n: f"{'>' if n in right else '<'}{width}" for n, width in enumerate(widths) if width}
    lines = []
    for row in rows:
        cells = [f"{row[n]:{form}}" for n, form in forms.items()]
        lines.append("  ".join(cells).rstrip())
    return lines


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names in one line: the first few, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
