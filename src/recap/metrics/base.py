"""What a metric is: its names, its scale, what it needs, and how it scores captions."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from recap.core.errors import MetricError

if TYPE_CHECKING:
    from PIL.Image import Image

# Cc: control characters (CR, LF, VT, FF, NUL, NEL ...); Zl and Zp: U+2028 and U+2029; Cs: halves of
# a UTF-16 pair, which cannot be written as UTF-8. Java's tokenizer ends a line at several of them
# and shifts all later captions.
_BAD_CATEGORIES = frozenset({"Cc", "Zl", "Zp", "Cs"})
_METEOR_SEPARATOR = re.compile(r"\|{3,}")


def sanitize(caption: str) -> str:
    """Return a caption as one line: control characters and METEOR's ``|||`` become spaces."""
    cleaned = "".join(
        " " if unicodedata.category(char) in _BAD_CATEGORIES else char for char in caption
    )
    return _METEOR_SEPARATOR.sub(" ", cleaned).strip()


class Gap(MetricError):
    """A metric that has no value for these captions or on this machine."""


@dataclass(frozen=True)
class Tokenized:
    """Tokenized captions by sorted image id, and the tokenizer's name (``ptb``, ``simple``)."""

    references: dict[int, list[str]]
    hypotheses: dict[int, str]
    tokenizer: str


@dataclass(frozen=True)
class Captions:
    """What a metric scores: one caption per image, and the references of each image."""

    references: Mapping[int, Sequence[str]]  #: image id -> raw reference captions, at least one
    hypotheses: Mapping[int, str]  #: image id -> raw generated caption, by rising id; may be empty
    tokenized: Tokenized  #: the same, for metrics that compare words
    java: Path | None = None
    pictures: Callable[[int], Image] | None = None  #: returns the RGB picture of an image id
    folder: Path | None = None  #: where scores from outside are looked for
    split: str = "test"
    dataset: Path | None = None  #: folder of the corpus and of what its reader wrote beside it

    @property
    def ids(self) -> list[int]:
        """All image ids, rising."""
        return list(self.hypotheses)

    def picture(self, image_id: int) -> Image:
        """Return the picture of an image."""
        if self.pictures is None:
            raise MetricError(
                "a metric needs pictures, which no command reads; give `pictures` to "
                "evaluate_captions"
            )
        return self.pictures(image_id)

    def product(self, name: str) -> Path:
        """Return a file that the data set's reader wrote beside the corpus."""
        path = self.dataset / name if self.dataset else None
        if path is None or not path.is_file():
            raise MetricError(
                f"{path or name}: no such file; the readers of most data sets write none"
            )
        return path


@dataclass(frozen=True)
class Result:
    """Scores of a metric: per name one value of the corpus, and one per image, by id."""

    corpus: dict[str, float]
    per_image: dict[str, dict[int, float]]


class Metric(ABC):
    """Scores captions; `recap.settings.metrics.METRICS` says by which name recipes ask for it."""

    names: ClassVar[tuple[str, ...]]  #: of its scores, as tables call them
    scale: ClassVar[Literal[1, 100]] = 100  #: what tables multiply its values by: 100 is percent
    digits: ClassVar[int] = 1  #: decimal places in tables; differences have one more
    higher_is_better: ClassVar[bool] = True
    needs: ClassVar[frozenset[Literal["java", "pictures"]]] = frozenset()  #: what must be there
    #: files that it reads of those that a data set's reader writes
    products: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def version(self) -> dict[str, str]:
        """Return the signature's field of the version: ``{"pycocoevalcap": "1.2"}``."""

    @abstractmethod
    def score(self, captions: Captions) -> Result:
        """Score captions.

        Raises:
            Gap: there is no value for these captions or on this machine; the sentence says why.
            MetricError: it failed, and may succeed when tried again.
        """
