"""Pictures as a detector reads them: blue first, in the size that its training had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Resized:
    """A resized picture."""

    image_id: int  #: the image
    size: tuple[int, int]  #: width and height of the picture before
    pixels: Tensor  #: BGR uint8 [3, h, w]

    @staticmethod
    def of(image_id: int, picture: Image, *, short: int, long: int) -> Resized:
        """Resize an RGB picture so that its shorter side is ``short``, unless the longer one would pass ``long``."""
        width, height = picture.size
        scale = resize_scale(picture.size, short=short, long=long)
        resized = picture.resize((max(1, round(width * scale)), max(1, round(height * scale))), 2)  # bilinear
        pixels = torch.from_numpy(np.asarray(resized)[:, :, ::-1].copy()).permute(2, 0, 1)
        return Resized(image_id, (width, height), pixels)


def on_device(pictures: Sequence[Resized], device: torch.device) -> list[Tensor]:
    """Return the pixels of pictures of one size, brought to a device in one piece."""
    return list(torch.stack([each.pixels for each in pictures]).to(device))


def resize_scale(size: tuple[int, int], *, short: int, long: int) -> float:
    """Return the factor by which a picture of this width and height is resized."""
    return min(short / min(size), long / max(size))
