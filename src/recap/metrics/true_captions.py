"""How many captions of the built-in scenes are wholly true: what they say is compared with what was drawn."""

from __future__ import annotations

from typing import Any, ClassVar

from recap.data.datasets.scenes.truth import is_true
from recap.metrics.scene_truth import SceneTruth


class TrueCaptions(SceneTruth):
    """Share of captions of which every number, size, colour, texture, shape, place and background is right."""

    names: ClassVar[tuple[str, ...]] = ("True captions",)

    def version(self) -> dict[str, str]:
        """Return the version of the comparison."""
        return {"scenes": "1"}

    def is_true(self, caption: str, scene: Any) -> bool:
        """Return whether a caption is true of its scene."""
        return is_true(caption, scene)
