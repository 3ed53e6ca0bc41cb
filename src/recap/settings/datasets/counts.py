"""How large a data set is, known before its files are there."""

from __future__ import annotations

from pydantic import NonNegativeInt

from recap.settings.base import Strict


class Counts(Strict):
    """Images of each split, and captions of all."""

    train: NonNegativeInt
    val: NonNegativeInt
    test: NonNegativeInt
    captions: NonNegativeInt

    @property
    def images(self) -> int:
        """Images of all splits."""
        return self.train + self.val + self.test

    @property
    def captions_per_image(self) -> float:
        """Mean captions of an image."""
        return self.captions / self.images
