"""The toy's metric."""

from __future__ import annotations

from statistics import fmean
from typing import ClassVar, Literal

from recap.metrics.base import Captions, Metric, Result


class Words(Metric):
    """Words per caption."""

    names: ClassVar[tuple[str, ...]] = ("Words",)
    scale: ClassVar[Literal[1, 100]] = 1

    def version(self) -> dict[str, str]:
        """Return its field of the signature."""
        return {"words": "1"}

    def score(self, captions: Captions) -> Result:
        """Count the words."""
        counts = {
            image: float(len(text.split())) for image, text in captions.tokenized.hypotheses.items()
        }
        return Result({"Words": fmean(counts.values())}, {"Words": counts})
