"""How many captions of the built-in scenes are wholly true: what they say is compared with what was drawn."""

from __future__ import annotations

from statistics import fmean
from typing import ClassVar

from recap.data.datasets.scenes.truth import is_true, read_truth
from recap.metrics.base import Captions, Metric, Result

_BOXES = "boxes.json"


class TrueCaptions(Metric):
    """Share of captions of which every number, size, colour, texture, shape, place and background is right."""

    names: ClassVar[tuple[str, ...]] = ("True captions",)
    products: ClassVar[tuple[str, ...]] = (_BOXES,)

    def version(self) -> dict[str, str]:
        """Return the version of the comparison."""
        return {"scenes": "1"}

    def score(self, captions: Captions) -> Result:
        """Return 1 for each caption that is true of its image and 0 for each other; the corpus score is their mean.

        Raises:
            MetricError: these are not captions of the scenes, which alone have the file.
            DataError: the file is damaged.
        """
        scenes = read_truth(captions.product(_BOXES))
        truth = {image_id: float(is_true(text, scenes[image_id])) for image_id, text in captions.hypotheses.items()}
        (name,) = self.names
        return Result({name: fmean(truth.values())}, {name: truth})
