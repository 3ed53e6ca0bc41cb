"""What a metric is: its names, its scale, what it needs, and how it scores captions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from recap.core.errors import MetricError

if TYPE_CHECKING:
    from PIL.Image import Image


class Gap(MetricError):
    """A metric that has no value for these captions or on this machine, however often it is tried."""


@dataclass(frozen=True)
class Tokenized:
    """Tokenized captions, by image id in sorted order, and the name of the tokenizer (``ptb`` or ``simple``)."""

    references: dict[int, list[str]]
    hypotheses: dict[int, str]
    tokenizer: str


@dataclass(frozen=True)
class Captions:
    """What a metric scores: one caption per image, and the references of each image.

    Attributes:
        references: image id -> raw reference captions, at least one.
        hypotheses: image id -> raw generated caption, by rising id; may be empty.
        tokenized: the same, tokenized, for metrics that compare words.
        java: the Java to use, or None.
        timeout_seconds: time limit of each program that a metric starts.
        pictures: returns the RGB picture of an image id, or None where no pictures were given.
        folder: where scores from outside are looked for, or None.
        split: name of the split, ``val`` or ``test``.
        dataset: folder of the corpus and of what its reader wrote beside it, or None.
    """

    references: Mapping[int, Sequence[str]]
    hypotheses: Mapping[int, str]
    tokenized: Tokenized
    java: Path | None = None
    timeout_seconds: float = 600
    pictures: Callable[[int], Image] | None = None
    folder: Path | None = None
    split: str = "test"
    dataset: Path | None = None

    @property
    def ids(self) -> list[int]:
        """All image ids, rising."""
        return list(self.hypotheses)

    def picture(self, image_id: int) -> Image:
        """Return the picture of an image.

        Raises:
            MetricError: no pictures were given.
        """
        if self.pictures is None:
            raise MetricError(
                "a metric needs the pictures, which `recap evaluate` does not read; "
                "give `pictures` to evaluate_captions"
            )
        return self.pictures(image_id)

    def product(self, name: str) -> Path:
        """Return a file that the data set's reader wrote beside the corpus.

        Raises:
            MetricError: there is none; another data set has no such file.
        """
        path = self.dataset / name if self.dataset else None
        if path is None or not path.is_file():
            raise MetricError(f"{path or name}: no such file; the readers of most data sets write none")
        return path


@dataclass(frozen=True)
class Result:
    """Scores of a metric: for each of its names one value of the corpus, and one per image, by id."""

    corpus: dict[str, float]
    per_image: dict[str, dict[int, float]]


class Metric(ABC):
    """Scores captions; `recap.settings.metrics.METRICS` says by which name each is asked for.

    Attributes:
        names: of its scores, as tables call them.
        scale: what tables multiply its values by: 100 (percent) or 1.
        digits: decimal places in tables; differences have one more.
        higher_is_better: whether a larger value is better.
        needs: what must be there: a Java, the pictures.
        products: files that it reads of those that a data set's reader writes beside the corpus.
    """

    names: ClassVar[tuple[str, ...]]
    scale: ClassVar[Literal[1, 100]] = 100
    digits: ClassVar[int] = 1
    higher_is_better: ClassVar[bool] = True
    needs: ClassVar[frozenset[Literal["java", "pictures"]]] = frozenset()
    products: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def version(self) -> dict[str, str]:
        """Return the field of the signature that says which version scored: ``{"pycocoevalcap": "1.2"}``."""

    @abstractmethod
    def score(self, captions: Captions) -> Result:
        """Score captions.

        Raises:
            Gap: there is no value for these captions or on this machine; the sentence says why.
            MetricError: it failed, and may succeed when tried again.
        """
