"""Files of arrays: folders with one file per image (``.pth`` of grid-feats-vqa, ``.npz``), and M2's HDF5."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from recap.core.errors import DamagedFeatures, FeatureError
from recap.core.process import cause
from recap.features.hdf5 import UnreadableHdf5, ask, names, numbers
from recap.features.importers.job import EntryIndex, ImageIdLookup, no_rows, only_path, plain_files
from recap.features.origins import Mark, Origins, file_mark
from recap.features.records import GRID, REGION, ImageFeatures, image_digest
from recap.settings.features import ImportedFeatures

_LONGEST_SIDE = 2**20  # pixels


class GridFeatsPth:
    """``<id>.pth`` with a tensor [1, 2048, h, w] (or [2048, h, w]), averaged to ``grid`` x ``grid`` cells."""

    streams = (GRID,)

    def __init__(self, paths: Sequence[Path], lookup: ImageIdLookup, spec: ImportedFeatures) -> None:
        """Find the files; ``spec.grid`` 0 keeps the h x w cells as they are."""
        self._files, self._grid = _files(only_path(paths, "folder"), ".pth", lookup), spec.grid
        self.ids = list(self._files)
        self.origins = Origins(lambda image_id: [self._files[image_id]])

    def read(self, image_id: int) -> ImageFeatures:
        """Return the cells of one image in raster order."""
        import torch
        from torch.nn.functional import adaptive_avg_pool2d

        from recap.features.tensors import read_tensors

        path = self._files[image_id]
        maps = read_tensors(path, DamagedFeatures)
        if not isinstance(maps, torch.Tensor) or maps.ndim not in (3, 4) or (maps.ndim == 4 and len(maps) != 1):
            shape = list(getattr(maps, "shape", [])) or type(maps).__name__
            raise FeatureError(f"{path}: holds {shape}, expected a tensor [1, dim, h, w]; it is of another format")
        if not maps.is_floating_point():
            raise FeatureError(f"{path}: holds {maps.dtype}, expected floating-point numbers; it is of another format")
        maps = maps.detach().reshape(maps.shape[-3:]).float()
        if not maps.numel():
            raise no_rows(image_id, str(path))
        maps = adaptive_avg_pool2d(maps, self._grid) if self._grid else maps
        return ImageFeatures(image_id, (0, 0), {GRID: maps.flatten(1).T.contiguous().numpy()})


class NpzFolder:
    """``<name>_att/<id>.npz`` with ``feat`` [n, dim] regions or [h, w, dim] maps; ``<name>_box/<id>.npy`` boxes."""

    def __init__(self, paths: Sequence[Path], lookup: ImageIdLookup, spec: ImportedFeatures) -> None:
        """Find the files; the boxes are looked for in the folder beside, whose name ends with ``_box``."""
        folder = only_path(paths, "folder")
        self._files = _files(folder, ".npz", lookup)
        self.ids = list(self._files)
        boxes = folder.with_name(folder.name.removesuffix("_att") + "_box")
        self._boxes = _files(boxes, ".npy", lookup) if folder.name.endswith("_att") and boxes.is_dir() else None
        if self._boxes is not None and (missing := self._files.keys() - self._boxes.keys()):
            raise FeatureError(f"{boxes}: has no boxes of image id {min(missing)}; fetch them, or move the folder away")
        self.origins = Origins(lambda image_id: [files[image_id] for files in (self._files, self._boxes) if files])

    @cached_property
    def streams(self) -> tuple[str]:
        """The one stream, told from the first image."""
        return (REGION,) if _array(self._files[self.ids[0]]).ndim == 2 else (GRID,)

    def read(self, image_id: int) -> ImageFeatures:
        """Return the vectors of one image, and its boxes where there are any."""
        path = self._files[image_id]
        values = _array(path)
        if values.ndim not in (2, 3):
            raise FeatureError(f"{path}: `feat` has the shape {list(values.shape)}, expected [n, dim] or [h, w, dim]")
        if not values.size:
            raise no_rows(image_id, str(path))
        arrays = {self.streams[0]: values.reshape(-1, values.shape[-1])}
        if self._boxes is not None:
            arrays[f"{self.streams[0]}/boxes"] = _array(self._boxes[image_id])
        return ImageFeatures(image_id, (0, 0), arrays)


def _files(folder: Path, suffix: str, lookup: ImageIdLookup) -> EntryIndex:
    """Find the files of a folder and of those in it: published maps are in one for each split."""
    paths = sorted(folder.rglob(f"*{suffix}")) if folder.is_dir() else []
    if not paths:
        raise FeatureError(f"{folder}: no folder with *{suffix} files; correct the path")
    files = EntryIndex()
    for path in paths:
        name = path.relative_to(folder).with_suffix("").as_posix()
        files.add(lookup.image_id(name, str(path)), path, str(path))
    return files


def _array(path: Path) -> np.ndarray:
    """Return the array of a .npy, or the one named ``feat`` of a .npz."""
    try:
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                if "feat.npy" not in archive.NameToInfo:
                    raise FeatureError(f"{path}: has no array `feat`; it is of another format")
            with np.load(path, allow_pickle=False) as arrays:
                array = np.asarray(arrays["feat"])
        else:
            array = np.asarray(np.load(path, allow_pickle=False))
    except FeatureError:
        raise
    except Exception as error:  # numpy and zipfile raise whatever the damaged bytes happen to mean
        reason = cause(error)[:120]
        raise DamagedFeatures(f"{path}: truncated, damaged or no array ({reason}); fetch it again") from error
    if array.dtype.kind not in "fiu":
        raise FeatureError(f"{path}: holds {array.dtype}, expected numbers; it is of another format")
    return array


class M2Hdf5(Origins):
    """One HDF5 file with some datasets per image, as the code of M2 and those built on it read them.

    ``<id>_features`` [n, 2048], ``<id>_boxes`` [n, 4], ``<id>_cls_prob`` [n, classes]; DLCT and RSTNet: ``<id>_grids``
    [49, 2048], ``<id>_size`` (height, width) of the resized picture that its boxes refer to, ``<id>_mask`` [n, 49] the
    cells a region touches.
    """

    def __init__(self, paths: Sequence[Path], lookup: ImageIdLookup, spec: ImportedFeatures) -> None:
        """Find the images and what there is of each."""
        (self._path,) = plain_files([only_path(paths, "HDF5 file")], "one HDF5 file")
        try:
            self._there = set(ask(names, self._path))
        except UnreadableHdf5 as error:
            raise DamagedFeatures(f"{self._path}: truncated or no HDF5 file ({error}); fetch it again") from error
        self._names = EntryIndex()
        suffixes = {key.rpartition("_")[2] for key in self._there}
        self.streams = tuple(s for s, suffix in ((REGION, "features"), (GRID, "grids")) if suffix in suffixes)
        if not self.streams:
            raise FeatureError(
                f"{self._path}: has no dataset named <id>_features or <id>_grids; it is of another format"
            )
        main = "features" if REGION in self.streams else "grids"
        for name, _, suffix in (key.rpartition("_") for key in sorted(self._there)):
            if suffix == main:
                self._names.add(lookup.image_id(name, str(self._path)), name, str(self._path))
        self.ids, self.origins = list(self._names), self

    def read(self, image_id: int) -> ImageFeatures:
        """Return all streams and columns of one image."""
        arrays: dict[str, np.ndarray] = {}
        if REGION in self.streams:
            arrays[REGION] = self._dataset(image_id, "features")
            for suffix, column in {"boxes": "boxes", "cls_prob": "class_probabilities", "mask": "cells"}.items():
                if self._has(image_id, suffix):
                    arrays[f"{REGION}/{column}"] = self._dataset(image_id, suffix)
        if GRID in self.streams:
            arrays[GRID] = self._dataset(image_id, "grids")
        size = (0, 0)
        if self._has(image_id, "size"):
            sides = self._dataset(image_id, "size").ravel()
            if len(sides) != 2 or not ((sides >= 1) & (sides <= _LONGEST_SIDE)).all():
                raise FeatureError(
                    f"{self._path}, {self._names[image_id]}_size: holds {' '.join(map(str, sides[:4].tolist()))}, "
                    "expected height and width in pixels; the file is damaged or of another format"
                )
            size = round(float(sides[1])), round(float(sides[0]))
        return ImageFeatures(image_id, size, arrays)

    def mark(self, image_id: int) -> Mark:
        """Return the mark of the file."""
        return [file_mark(self._path)]

    def content(self, image_id: int) -> str:
        """Return the hash of an image's arrays and size."""
        record = self.read(image_id)
        return image_digest({**dict(record.values), "size": np.asarray(record.size)}).hex()

    def _has(self, image_id: int, suffix: str) -> bool:
        return f"{self._names[image_id]}_{suffix}" in self._there

    def _dataset(self, image_id: int, suffix: str) -> np.ndarray:
        name = f"{self._names[image_id]}_{suffix}"
        where = f"{self._path}, {name}"
        if name not in self._there:
            raise FeatureError(f"{where}: missing, though other images have it; fetch the file again")
        try:
            array = np.asarray(ask(numbers, self._path, name))
        except UnreadableHdf5 as error:
            raise DamagedFeatures(f"{where}: cannot be read ({error}); the file is damaged, fetch it again") from error
        if not array.shape[:1] or not array.shape[0]:
            raise no_rows(image_id, where)
        return array
