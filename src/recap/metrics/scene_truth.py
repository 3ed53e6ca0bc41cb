"""What metrics that compare captions of the built-in scenes with what was drawn have in common."""

from __future__ import annotations

from abc import abstractmethod
from statistics import fmean
from typing import Any, ClassVar

from recap.data.datasets.scenes.truth import read_truth
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
