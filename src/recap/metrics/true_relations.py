"""How many captions of the built-in scenes are right about what lies left of or above what."""

from __future__ import annotations

from typing import Any, ClassVar

from recap.data.datasets.scenes.truth import relation_is_true
from recap.metrics.scene_truth import SceneTruth


class TrueRelations(SceneTruth):
    """Share of captions whose relation is that of the scene; where there is none, of those that say none."""

    names: ClassVar[tuple[str, ...]] = ("True relations",)

    def version(self) -> dict[str, str]:
        """Return the version of the comparison."""
        return {"relations": "1"}

    def is_true(self, caption: str, scene: Any) -> bool:
        """Return whether a caption is true of its scene."""
        return relation_is_true(caption, scene)
