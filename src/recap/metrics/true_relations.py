"""How many captions of the built-in scenes are right about what lies left of or above what."""

from __future__ import annotations

from statistics import fmean
from typing import ClassVar

from recap.data.datasets.scenes.truth import read_truth, relation_is_true
from recap.metrics.base import Captions, Metric, Result

_BOXES = "boxes.json"


class TrueRelations(Metric):
    """Share of captions whose relation is that of the scene; where there is none, of those that say none."""

    names: ClassVar[tuple[str, ...]] = ("True relations",)
    products: ClassVar[tuple[str, ...]] = (_BOXES,)

    def version(self) -> dict[str, str]:
        """Return the version of the comparison."""
        return {"relations": "1"}

    def score(self, captions: Captions) -> Result:
        """Return 1 for each caption whose relation is true of its image and 0 for each other, and their mean.

        Raises:
            MetricError: these are not captions of the scenes, which alone have the file.
            DataError: the file is damaged.
        """
        scenes = read_truth(captions.product(_BOXES))
        truth = {
            image_id: float(relation_is_true(text, scenes[image_id])) for image_id, text in captions.hypotheses.items()
        }
        (name,) = self.names
        return Result({name: fmean(truth.values())}, {name: truth})
