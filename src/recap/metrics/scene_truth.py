"""Metrics of the built-in scenes: how many captions are true, wholly or of relations, compared with what was drawn."""

from __future__ import annotations

from abc import abstractmethod
from statistics import fmean
from typing import Any, ClassVar

from recap.data.datasets.scenes.truth import is_true, read_truth, relation_is_true
from recap.metrics.base import Captions, Metric, Result

BOXES = "boxes.json"


class SceneTruth(Metric):
    """Share of captions that a comparison with their scene calls true."""

    products: ClassVar[tuple[str, ...]] = (BOXES,)

    @abstractmethod
    def is_true(self, caption: str, scene: Any) -> bool:
        """Return whether a caption is true of its scene."""

    def score(self, captions: Captions) -> Result:
        """Return 1 for each caption that is true of its image and 0 for each other; the corpus score is their mean.

        Raises:
            MetricError: these are not captions of the scenes, which alone have the file.
            DataError: the file is damaged.
        """
        scenes = read_truth(captions.product(BOXES))
        truth = {image: float(self.is_true(text, scenes[image])) for image, text in captions.hypotheses.items()}
        (name,) = self.names
        return Result({name: fmean(truth.values())}, {name: truth})


class TrueCaptions(SceneTruth):
    """Share of captions of which every number, size, colour, texture, shape, place and background is right."""

    names: ClassVar[tuple[str, ...]] = ("True captions",)

    def version(self) -> dict[str, str]:
        """Return the version of the comparison."""
        return {"scenes": "1"}

    def is_true(self, caption: str, scene: Any) -> bool:
        """Return whether a caption is true of its scene."""
        return is_true(caption, scene)


class TrueRelations(SceneTruth):
    """Share of captions whose relation is that of the scene; where there is none, of those that say none."""

    names: ClassVar[tuple[str, ...]] = ("True relations",)

    def version(self) -> dict[str, str]:
        """Return the version of the comparison."""
        return {"relations": "1"}

    def is_true(self, caption: str, scene: Any) -> bool:
        """Return whether a caption is true of its scene."""
        return relation_is_true(caption, scene)
