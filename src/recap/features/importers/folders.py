"""Folders with one file per image: ``.pth`` maps of grid-feats-vqa, and ``.npz`` arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from recap.core.errors import DamagedFeatures, FeatureError
from recap.core.process import cause
from recap.features.importers.base import EntryIndex, ImageIdLookup, no_rows, only_path
from recap.features.origins import Origins
from recap.features.records import GRID, REGION, ImageFeatures
from recap.settings.features import ImportedFeatures


class GridFeatsPth:
    """``<id>.pth`` with a tensor [1, 2048, h, w] (or [2048, h, w]), averaged to ``grid`` x ``grid`` cells."""

    streams = (GRID,)

    def __init__(self, paths: Sequence[Path], lookup: ImageIdLookup, spec: ImportedFeatures) -> None:
        """Find the files; ``spec.grid`` 0 keeps the h x w cells as they are."""
        self._files, self._grid = _files(only_path(paths, "folder"), ".pth", lookup), spec.grid
        self.ids = self._files.ids
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
        self.ids = self._files.ids
        self.origins = Origins(self._own)
        boxes = folder.with_name(folder.name.removesuffix("_att") + "_box")
        self._boxes = _files(boxes, ".npy", lookup) if folder.name.endswith("_att") and boxes.is_dir() else None
        missing = set(self.ids()) - set(self._boxes.ids() if self._boxes else self.ids())
        if missing:
            raise FeatureError(f"{boxes}: has no boxes of image id {min(missing)}; fetch them, or move the folder away")

    @cached_property
    def streams(self) -> tuple[str]:
        """The one stream, told from the first image."""
        return (REGION,) if _array(self._files[self.ids()[0]]).ndim == 2 else (GRID,)

    def read(self, image_id: int) -> ImageFeatures:
        """Return the vectors of one image, and its boxes where there are any."""
        path = self._files[image_id]
        values = _array(path)
        if values.ndim not in (2, 3):
            raise FeatureError(f"{path}: `feat` has the shape {list(values.shape)}, expected [n, dim] or [h, w, dim]")
        if not values.size:
            raise no_rows(image_id, str(path))
        arrays = {self.streams[0]: values.reshape(-1, values.shape[-1])}
        if self._boxes:
            arrays[f"{self.streams[0]}/boxes"] = _array(self._boxes[image_id])
        return ImageFeatures(image_id, (0, 0), arrays)

    def _own(self, image_id: int) -> list[Path]:
        return [files[image_id] for files in (self._files, self._boxes) if files]


def _files(folder: Path, suffix: str, lookup: ImageIdLookup) -> EntryIndex:
    """Find the files of a folder and of those in it: published maps are in one for each split."""
    paths = sorted(folder.rglob(f"*{suffix}")) if folder.is_dir() else []
    if not paths:
        raise FeatureError(f"{folder}: no folder with *{suffix} files; correct the path")
    places = EntryIndex()
    for path in paths:
        name = path.relative_to(folder).with_suffix("").as_posix()
        places.add(lookup.image_id(name, str(path)), path, str(path))
    return places


def _array(path: Path) -> np.ndarray:
    """Return the array of a .npy, or the one named ``feat`` of a .npz."""
    try:
        array = _loaded(path)
    except FeatureError:
        raise
    except Exception as error:  # numpy and zipfile raise whatever the damaged bytes happen to mean
        reason = cause(error)[:120]
        raise DamagedFeatures(f"{path}: truncated, damaged or no array ({reason}); fetch it again") from error
    if array.dtype.kind not in "fiu":
        raise FeatureError(f"{path}: holds {array.dtype}, expected numbers; it is of another format")
    return array


def _loaded(path: Path) -> np.ndarray:
    if path.suffix == ".npy":
        return np.asarray(np.load(path, allow_pickle=False))
    with zipfile.ZipFile(path) as archive:
        if "feat.npy" not in archive.NameToInfo:
            raise FeatureError(f"{path}: has no array `feat`; it is of another format")
    with np.load(path, allow_pickle=False) as found:
        return np.asarray(found["feat"])
