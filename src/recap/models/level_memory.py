"""The memory of models whose decoder reads the outputs of all encoder layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

from recap.models.state import Memory


@dataclass(frozen=True)
class LevelMemory(Memory):
    """A memory with the output of every encoder layer, `levels` [B, L, N, D]; `values` is the last of them."""

    levels: Tensor

    def select(self, images: Tensor) -> Self:
        """Return the memory of some of the images, given by index."""
        levels = self.levels[images]
        return replace(self, values=levels[:, -1], mask=self.mask[images], levels=levels)
