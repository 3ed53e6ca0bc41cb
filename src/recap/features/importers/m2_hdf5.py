"""Regions and grids as one HDF5 file with some datasets per image, as the code of M2 and those built on it read them.

``<id>_features`` [n, 2048], ``<id>_boxes`` [n, 4], ``<id>_cls_prob`` [n, classes]; DLCT and RSTNet: ``<id>_grids``
[49, 2048], ``<id>_size`` (height, width) of the resized picture that its boxes refer to, ``<id>_mask`` [n, 49] the
cells a region touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from recap.core.errors import DamagedFeatures, FeatureError
from recap.features.hdf5 import UnreadableHdf5, ask, names, numbers
from recap.features.importers.base import EntryIndex, ImageIdLookup, no_rows, only_path, plain_files
from recap.features.origins import Mark, Origins, file_mark
from recap.features.records import GRID, REGION, ImageFeatures, image_digest
from recap.settings.features import ImportedFeatures

_LONGEST_SIDE = 2**20  # pixels
_COLUMNS = {"boxes": "boxes", "cls_prob": "class_probabilities", "mask": "cells"}


class M2Hdf5(Origins):
    """Streams ``region`` and ``grid``, whichever the file has."""

    def __init__(self, paths: Sequence[Path], lookup: ImageIdLookup, spec: ImportedFeatures) -> None:
        """Find the images and what there is of each."""
        (self._path,) = plain_files([only_path(paths, "HDF5 file")], "one HDF5 file")
        try:
            self._there = set(ask(names, self._path))
        except UnreadableHdf5 as error:
            raise DamagedFeatures(f"{self._path}: truncated or no HDF5 file ({error}); fetch it again") from error
        keys = sorted(key for key in self._there if key.rpartition("_")[2] in ("features", "grids"))
        found = {key.rpartition("_")[2] for key in keys}
        if not found:
            raise FeatureError(
                f"{self._path}: has no dataset named <id>_features or <id>_grids; it is of another format"
            )
        self.streams = tuple(s for s, suffix in ((REGION, "features"), (GRID, "grids")) if suffix in found)
        main = "features" if REGION in self.streams else "grids"
        self._names = EntryIndex()
        for key in keys:
            name, _, suffix = key.rpartition("_")
            if suffix == main:
                self._names.add(lookup.image_id(name, str(self._path)), name, str(self._path))
        self.ids, self.origins = self._names.ids, self

    def read(self, image_id: int) -> ImageFeatures:
        """Return all streams and columns of one image."""
        name = self._names[image_id]
        arrays = self._arrays(image_id)
        return ImageFeatures(image_id, self._size(name, image_id), arrays)

    def mark(self, image_id: int) -> Mark:
        """Return the mark of the file."""
        return [file_mark(self._path)]

    def content(self, image_id: int) -> str:
        """Return the hash of an image's arrays and size."""
        arrays = self._arrays(image_id)
        return image_digest({**arrays, "size": np.asarray(self._size(self._names[image_id], image_id))}).hex()

    def _arrays(self, image_id: int) -> dict[str, np.ndarray]:
        name = self._names[image_id]
        arrays: dict[str, np.ndarray] = {}
        if REGION in self.streams:
            arrays[REGION] = self._dataset(name, "features", image_id)
            for suffix, column in _COLUMNS.items():
                if f"{name}_{suffix}" in self._there:
                    arrays[f"{REGION}/{column}"] = self._dataset(name, suffix, image_id)
        if GRID in self.streams:
            arrays[GRID] = self._dataset(name, "grids", image_id)
        return arrays

    def _size(self, name: str, image_id: int) -> tuple[int, int]:
        """Return width and height; zeros where the file does not say."""
        if f"{name}_size" not in self._there:
            return 0, 0
        sides = self._dataset(name, "size", image_id).ravel()
        if len(sides) != 2 or not ((sides >= 1) & (sides <= _LONGEST_SIDE)).all():
            raise FeatureError(
                f"{self._path}, {name}_size: holds {' '.join(map(str, sides[:4].tolist()))}, expected height and width "
                "in pixels; the file is damaged or of another format"
            )
        return round(float(sides[1])), round(float(sides[0]))

    def _dataset(self, name: str, suffix: str, image_id: int) -> np.ndarray:
        where = f"{self._path}, {name}_{suffix}"
        if f"{name}_{suffix}" not in self._there:
            raise FeatureError(f"{where}: missing, though other images have it; fetch the file again")
        try:
            array = np.asarray(ask(numbers, self._path, f"{name}_{suffix}"))
        except UnreadableHdf5 as error:
            raise DamagedFeatures(f"{where}: cannot be read ({error}); the file is damaged, fetch it again") from error
        if not array.shape[:1] or not array.shape[0]:
            raise no_rows(image_id, where)
        return array
