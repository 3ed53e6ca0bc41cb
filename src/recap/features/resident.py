"""Features that stay in memory, or on the GPU, for a whole training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from recap.core.errors import FeatureError
from recap.features.store import FeatureStore

SHARE = 0.8  # of the free memory that features may take; the rest is the training's
PIECE = 256  # images read at a time


class ResidentFeatures:
    """The features of some images as one float32 tensor on a device; reads as the store they came from.

    Of several processes each keeps its own.

    Args:
        store: where they are read, once.
        image_ids: of the images.
        device: where they stay.

    Raises:
        FeatureError: an image is not in the store, or the features do not fit into four fifths of the free memory.
    """

    def __init__(self, store: FeatureStore, image_ids: Sequence[int], device: torch.device) -> None:
        counts = store.rows(image_ids)
        needed, free = int(counts.sum()) * store.dim * 4, free_memory(device)
        if needed > SHARE * free:
            raise FeatureError(
                f"{store.path}: features of {needed / 2**30:.1f} GiB do not stay on {device}, which has "
                f"{free / 2**30:.1f} GiB free; set features_in_memory: false"
            )
        starts = np.cumsum(counts) - counts
        self._image = {image: place for place, image in enumerate(image_ids)}
        self._starts, self._counts = (torch.from_numpy(x).to(device) for x in (starts, counts))
        self._values = torch.empty(int(counts.sum()), store.dim, device=device)  # [rows of all images, F]
        for first in range(0, len(image_ids), PIECE):
            values, mask = store.read(image_ids[first : first + PIECE])
            self._values[int(starts[first]) :][: int(mask.sum())] = values[mask].to(device)

    def read(self, image_ids: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return values [B, N, F] and mask [B, N] as `FeatureStore.read` does, on the device."""
        wanted = torch.tensor([self._image[image] for image in image_ids], device=self._values.device)
        starts, counts = self._starts[wanted], self._counts[wanted]
        places = torch.arange(int(counts.max()), device=self._values.device)
        mask = places < counts[:, None]
        rows = (starts[:, None] + places).where(mask, 0)
        values = self._values.index_select(0, rows.flatten()).view(*mask.shape, -1)
        return values.masked_fill_(~mask[..., None], 0.0), mask


def free_memory(device: torch.device) -> int:
    """Return the bytes that are free on a device; on the CPU: what Linux calls available, elsewhere all memory."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    table = Path("/proc/meminfo")
    if table.exists():
        lines = dict(line.split(":", 1) for line in table.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
