"""Regions and grids as one HDF5 file with some datasets an image, as M2, VisualGPT, RSTNet and DLCT read them.

``<id>_features`` [n, 2048], ``<id>_boxes`` [n, 4], ``<id>_cls_prob`` [n, classes]; DLCT and RSTNet: ``<id>_grids``
[49, 2048], ``<id>_size`` (height, width) of the resized picture that its boxes refer to, ``<id>_mask`` [n, 49] the
cells a region touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recap.core.errors import FeatureError
from recap.features.importers.base import Names, Places, no_rows, one_of
from recap.features.layout import GRID, REGION
from recap.features.records import ImageFeatures

_COLUMNS = {"boxes": "boxes", "cls_prob": "class_probabilities", "mask": "cells"}


class M2Hdf5:
    """Streams ``region`` and ``grid``, whichever the file has."""

    def __init__(self, paths: Sequence[Path], names: Names) -> None:
        """Find the images and what there is of each.

        Raises:
            FeatureError: the file is missing, damaged or of another form, or an image stands twice.
        """
        import h5py

        self._path = one_of(paths, "HDF5 file")
        try:
            self._file = h5py.File(self._path, "r", locking=False)
            keys = [key for key in self._file if key.rpartition("_")[2] in ("features", "grids")]
        except OSError as error:
            raise FeatureError(f"{self._path}: truncated or no HDF5 file ({error}); fetch it again") from error
        found = {key.rpartition("_")[2] for key in keys}
        if not found:
            raise FeatureError(f"{self._path}: has no dataset named <id>_features or <id>_grids; it is of another form")
        self.streams = tuple(s for s, suffix in ((REGION, "features"), (GRID, "grids")) if suffix in found)
        main = "features" if REGION in self.streams else "grids"
        self._names = Places()
        for key in keys:
            name, _, suffix = key.rpartition("_")
            if suffix == main:
                self._names.add(names.image_id(name, str(self._path)), name, str(self._path))
        self.ids = self._names.ids

    def read(self, image_id: int) -> ImageFeatures:
        """Return all streams and columns of one image.

        Raises:
            FeatureError: a dataset that other images have is missing, cannot be read, or has no rows.
        """
        name = self._names[image_id]
        arrays: dict[str, np.ndarray] = {}
        if REGION in self.streams:
            arrays[REGION] = self._dataset(name, "features", image_id)
            for suffix, column in _COLUMNS.items():
                if f"{name}_{suffix}" in self._file:
                    arrays[f"{REGION}/{column}"] = self._dataset(name, suffix, image_id)
        if GRID in self.streams:
            arrays[GRID] = self._dataset(name, "grids", image_id)
        height, width = self._dataset(name, "size", image_id).ravel() if f"{name}_size" in self._file else (0, 0)
        return ImageFeatures(image_id, (round(float(width)), round(float(height))), arrays)

    def _dataset(self, name: str, suffix: str, image_id: int) -> np.ndarray:
        where = f"{self._path}, {name}_{suffix}"
        try:
            found: Any = self._file[f"{name}_{suffix}"]
            array = np.asarray(found[()])
        except KeyError as error:
            raise FeatureError(f"{where}: missing, though other images have it; fetch the file again") from error
        except (OSError, RuntimeError) as error:
            raise FeatureError(f"{where}: cannot be read ({error}); the file is damaged, fetch it again") from error
        if not array.shape[:1] or not array.shape[0]:
            raise no_rows(image_id, where)
        return array
