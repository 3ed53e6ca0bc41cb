"""Features that stay in memory, or on the GPU, for a whole training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from recap.core.errors import FeatureError
from recap.models.images import Images, Stream
from recap.runs.inputs import FeatureSources

USABLE = 0.8  # fraction of the free memory that features may take; the rest is the training's
CHUNK = 256  # images read at a time


class ResidentFeatures:
    """The features of some images as float32 tensors on a device, read once from sources; reads as these do.

    Of several processes each keeps its own.
    """

    def __init__(self, sources: FeatureSources, image_ids: Sequence[int], device: torch.device) -> None:
        counts = sources.rows(image_ids)
        needed = sum(int(rows.sum()) * sources.sizes[name] * 4 for name, rows in counts.items())
        free = free_memory(device)
        if needed > USABLE * free:
            raise FeatureError(
                f"{sources.stores[0].path}: features of {needed / 2**30:.1f} GiB do not stay on {device}, which has "
                f"{free / 2**30:.1f} GiB free; set features_in_memory: false"
            )
        self._index = {image: index for index, image in enumerate(image_ids)}
        self._device = device
        self._streams = {name: _ResidentStream(rows, device) for name, rows in counts.items()}
        for first in range(0, len(image_ids), CHUNK):
            images = sources.read(image_ids[first : first + CHUNK])
            for name, kept in self._streams.items():
                kept.append(images[name])

    def read(self, image_ids: Sequence[int]) -> Images:
        """Return images as `FeatureSources.read` does, on the device."""
        wanted = torch.tensor([self._index[image] for image in image_ids])
        return Images({name: stream.read(wanted) for name, stream in self._streams.items()})


class _ResidentStream:
    """One stream of all images: the vectors of each image, one image after the other, and boxes and sizes if read."""

    def __init__(self, counts: np.ndarray, device: torch.device) -> None:
        # On the CPU, which reads them for each batch.
        self._counts, self._starts = (torch.from_numpy(x) for x in (counts, np.cumsum(counts) - counts))
        self._length, self._filled, self._device = int(counts.sum()), 0, device
        self._packed: dict[str, Tensor] = {}  # values [length, F], boxes [length, 4]
        self._sizes: list[Tensor] = []

    def append(self, stream: Stream) -> None:
        """Keep the next images."""
        known = {"values": stream.values, "boxes": stream.boxes}
        for name, padded in known.items():
            if padded is not None:
                if name not in self._packed:
                    self._packed[name] = torch.empty(self._length, padded.shape[-1], device=self._device)
                vectors = padded[stream.mask]
                self._packed[name][self._filled :][: len(vectors)] = vectors.to(self._device)
        self._filled += int(stream.mask.sum())
        if stream.sizes is not None:
            self._sizes.append(stream.sizes.to(self._device))

    def read(self, wanted: Tensor) -> Stream:
        """Return images by their index."""
        starts, counts = self._starts[wanted], self._counts[wanted]
        positions = torch.arange(int(counts.max()))
        mask = positions < counts[:, None]
        rows = (starts[:, None] + positions).where(mask, 0).to(self._device)
        mask = mask.to(self._device)
        found = {}
        for name, packed in self._packed.items():
            padded = packed.index_select(0, rows.flatten()).view(*mask.shape, -1)
            found[name] = padded.masked_fill_(~mask[..., None], 0.0)
        sizes = torch.cat(self._sizes)[wanted.to(self._device)] if self._sizes else None
        return Stream(found["values"], mask, found.get("boxes"), sizes)


def free_memory(device: torch.device) -> int:
    """Return the bytes that are free on a device; on the CPU: what Linux calls available, elsewhere all memory."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    table = Path("/proc/meminfo")
    if table.exists():
        lines = dict(line.split(":", 1) for line in table.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
