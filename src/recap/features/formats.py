"""Feature files of others: text, folders of arrays and HDF5 (docs/reference/feature_files.md)."""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from recap.core.errors import DamagedFeatures, FeatureError, first_line
from recap.core.files import reading
from recap.core.log import progress
from recap.core.process import cause
from recap.features.importers import EntryIndex, ImageIdLookup, no_rows, only_path, plain_files
from recap.features.records import GRID, REGION, ImageFeatures
from recap.settings.features import ImportedFeatures

_LONGEST_ID = 1024
_LONGEST_SIDE = 2**20  # pixels
_LARGEST = 2**29  # bytes of one dataset of HDF5; more is no feature of one picture
_MOST = 2**31 - 1  # of a whole number: sides are stored as int32
_WITH_BOX = 2054  # numbers of a VinVL vector, which ends with its box
_NO_ROWS = (0, 0), {REGION: np.empty((0, 0))}

# ---- regions as text, one image a line of base64


class Lines(ABC):
    """The lines of several files by image id:
    bottom-up features (Anderson et al. 2018), and VinVL's and Oscar's.

    Files have gigabytes and lines have megabytes: memory holds the positions of lines, never their
    content.
    """

    streams = (REGION,)

    def __init__(
        self, paths: Sequence[Path], lookup: ImageIdLookup, spec: ImportedFeatures
    ) -> None:
        """Find all lines; of an image in ``spec.damaged``,
        the first that can be read, if there is one.

        As many lines without an image id as there are damaged images are passed over.
        """
        files = plain_files(paths, "TSV files")
        self._entries = EntryIndex()  # file, position and what messages call it
        doubtful: dict[int, list[tuple[Path, int, str]]] = {}
        broken = 0
        for file, start, beginning, where in self._lines(files):
            try:
                image_id = _image_of(beginning, lookup, where)
            except FeatureError:
                broken += 1
                if broken > len(spec.damaged):
                    raise
                continue
            if image_id is not None and image_id in spec.damaged:
                doubtful.setdefault(image_id, []).append((file, start, where))
            else:
                self._entries.add(image_id, (file, start, where), where)
        if not self._entries and not lookup.unfit:
            raise FeatureError(f"{files[0]}: holds no lines; fetch it again")
        for image_id, entries in doubtful.items():
            self._add_readable(image_id, entries)
        self.ids = list(self._entries)

    def _lines(self, files: Sequence[Path]) -> Iterator[tuple[Path, int, bytes, str]]:
        """Yield file, byte position and beginning of each line, and what messages call it."""
        for file in files:
            lines = progress(self._starts(file), name=file.name, unit="lines")
            for number, (start, beginning) in enumerate(lines, start=1):
                yield file, start, beginning, f"{file}, line {number}"

    def _add_readable(self, image_id: int, entries: Sequence[tuple[Path, int, str]]) -> None:
        """Add the first of an image's entries that can be read, if there is one."""
        for entry in entries:
            self._entries[image_id] = entry
            try:
                self.read(image_id)
                return
            except FeatureError:
                del self._entries[image_id]

    def _starts(self, path: Path) -> Iterator[tuple[int, bytes]]:
        """Yield byte position and beginning of each line."""
        position = 0
        with path.open("rb") as file:
            for line in file:
                if line.strip():
                    yield position, line[:_LONGEST_ID]
                position += len(line)

    def read(self, image_id: int) -> ImageFeatures:
        """Return the features of one image."""
        path, start, where = self._entries[image_id]
        with _parsing(where), path.open("rb") as file:
            file.seek(start)
            size, arrays = self.parse(file.readline().rstrip(b"\r\n").split(b"\t"))
        if not len(arrays[REGION]):
            raise no_rows(image_id, where)
        return ImageFeatures(image_id, size, arrays)

    @abstractmethod
    def parse(self, fields: list[bytes]) -> tuple[tuple[int, int], dict[str, np.ndarray]]:
        """Return width and height of a picture, and its arrays; ValueError of other fields."""

    def files(self, image_id: int) -> list[Path]:
        """Return the file with the line of an image."""
        return [self._entries[image_id][0]]


def _image_of(beginning: bytes, lookup: ImageIdLookup, where: str) -> int | None:
    """Return the image of a line, given its beginning; None: an image that is not asked for."""
    with _parsing(where):
        name, tab, _ = beginning.partition(b"\t")
        if not tab:
            raise ValueError("has no tab after an image id")
        return lookup.image_id(name.decode("utf-8", "replace").strip(), where)


class BottomUpTsv(Lines):
    """The original six columns, or ten with classes and attributes.

    Six: image_id, image_w, image_h, num_boxes, boxes, features. Ten: img_id, img_h, img_w,
    objects_id, objects_conf, attrs_id, attrs_conf, num_boxes, boxes, features; ids are int64, all
    other arrays float32.
    """

    def parse(self, fields: list[bytes]) -> tuple[tuple[int, int], dict[str, np.ndarray]]:
        """Return vectors and boxes of one image, and classes and attributes if there."""
        if len(fields) not in (6, 10):
            raise ValueError(f"has {len(fields)} fields, expected 6 or 10")
        first = _whole(fields[1], "a side of the image")
        second = _whole(fields[2], "a side of the image")
        count = _whole(fields[-3], "num_boxes")
        if not count:
            return _NO_ROWS
        arrays = {
            REGION: _array(fields[-1], "float32", (count, -1)),
            f"{REGION}/boxes": _array(fields[-2], "float32", (count, 4)),
        }
        if len(fields) == 6:
            return (first, second), arrays
        columns = {
            "classes": "int64",
            "class_scores": "float32",
            "attributes": "int64",
            "attribute_scores": "float32",
        }
        for (name, dtype), field in zip(columns.items(), fields[3:7], strict=True):
            arrays[f"{REGION}/{name}"] = _array(field, dtype, (count,))
        return (second, first), arrays


class VinvlTsv(Lines):
    """``features.tsv`` with its ``features.lineidx`` (position of each line), or both for each
    split.

    A line is image id, number of boxes, base64 of float32 [boxes, 2054]; in the packs for
    captioning, image id and a JSON with ``num_boxes`` and ``features``. The last six numbers are
    x1/W, y1/H, x2/W, y2/H, w/W, h/H and stay part of the vector. The file does not say W and H:
    boxes are those of a picture of 1 x 1.
    """

    def _starts(self, path: Path) -> Iterator[tuple[int, bytes]]:
        """Yield byte position and beginning of the lines that the index names."""
        index = path.with_suffix(".lineidx")
        size = path.stat().st_size
        with reading(index, FeatureError, missing="it must be beside the TSV: fetch it, too"):
            positions = [int(line) for line in index.read_bytes().split()]
        with path.open("rb") as file:
            for position in positions:
                inside = 0 <= position < size
                file.seek(position - 1 if inside and position else 0)
                if not inside or (position and file.read(1) != b"\n"):
                    raise FeatureError(
                        f"{path}: no line starts at byte {position}, where its .lineidx says; the "
                        "two files do not belong together or one is truncated: fetch both again"
                    )
                yield position, file.read(_LONGEST_ID)

    def parse(self, fields: list[bytes]) -> tuple[tuple[int, int], dict[str, np.ndarray]]:
        """Return the vectors of one image, and the boxes that end them."""
        if len(fields) not in (2, 3):
            raise ValueError(f"has {len(fields)} fields, expected 2 or 3")
        text, content = fields[1:] if len(fields) == 3 else _from_json(fields[1])
        count = _whole(text, "the number of boxes")
        if not count:
            return _NO_ROWS
        values = _array(content, "float32", (count, -1))
        if values.shape[1] != _WITH_BOX:
            return (0, 0), {REGION: values}
        boxes = values[:, -6:-2].clip(0, 1)  # float32 may be a little above 1
        return (1, 1), {REGION: values, f"{REGION}/boxes": boxes}


@contextmanager
def _parsing(where: str) -> Iterator[None]:
    """Turn what is wrong with a line into a sentence with its place."""
    try:
        yield
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise FeatureError(
            f"{where}: {first_line(error)[:200]}; the file is truncated, damaged or of another "
            "format"
        ) from error


def _from_json(field: bytes) -> tuple[bytes, bytes]:
    values = json.loads(field)
    return str(values["num_boxes"]).encode(), str(values["features"]).encode()


def _whole(field: bytes, name: str) -> int:
    """Return a field as a whole number of zero or more."""
    if not field.isdigit() or len(field) > 10 or int(field) > _MOST:
        raise ValueError(f"{name} is {field[:40]!r}, expected a whole number up to {_MOST}")
    return int(field)


def _array(field: bytes, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array from base64, whose bytes must be exactly those of ``shape``."""
    content = base64.b64decode(field, validate=True)
    return np.frombuffer(content, dtype).reshape(shape)


# ---- a folder with one file an image


class GridFeatsPth:
    """``<id>.pth`` with a tensor [1, 2048, h, w] (or [2048, h, w]), averaged to a ``grid``."""

    streams = (GRID,)

    def __init__(
        self, paths: Sequence[Path], lookup: ImageIdLookup, spec: ImportedFeatures
    ) -> None:
        """Find the files; ``spec.grid`` 0 keeps the h x w cells as they are."""
        self._files = _files(only_path(paths, "folder"), ".pth", lookup)
        self._grid = spec.grid
        self.ids = list(self._files)

    def files(self, image_id: int) -> list[Path]:
        """Return the file of an image."""
        return [self._files[image_id]]

    def read(self, image_id: int) -> ImageFeatures:
        """Return the cells of one image in raster order."""
        import torch
        from torch.nn.functional import adaptive_avg_pool2d

        from recap.features.tensors import read_tensors

        path = self._files[image_id]
        maps = read_tensors(path, FeatureError)
        is_map = isinstance(maps, torch.Tensor) and maps.ndim > 2 and maps.shape[:-3] in ((), (1,))
        if not is_map or not maps.is_floating_point():
            about = (maps.dtype, [*maps.shape]) if isinstance(maps, torch.Tensor) else type(maps)
            raise FeatureError(
                f"{path}: holds {about}, expected floating-point numbers [1, dim, h, w]; it is of "
                "another format"
            )
        maps = maps.detach().reshape(maps.shape[-3:]).float()
        if not maps.numel():
            raise no_rows(image_id, str(path))
        maps = adaptive_avg_pool2d(maps, self._grid) if self._grid else maps
        return ImageFeatures(image_id, (0, 0), {GRID: maps.flatten(1).T.contiguous().numpy()})


class NpzFolder:
    """``<name>_att/<id>.npz`` with ``feat`` [n, dim] regions or [h, w, dim] maps.

    ``<name>_box/<id>.npy`` boxes.
    """

    def __init__(
        self, paths: Sequence[Path], lookup: ImageIdLookup, spec: ImportedFeatures
    ) -> None:
        """Find the files; boxes are in the folder beside, whose name ends with ``_box``."""
        folder = only_path(paths, "folder")
        self._files = _files(folder, ".npz", lookup)
        self.ids = list(self._files)
        boxes = folder.with_name(folder.name.removesuffix("_att") + "_box")
        self._boxes = EntryIndex()
        if folder.name.endswith("_att") and boxes.is_dir():
            self._boxes = _files(boxes, ".npy", lookup)
            for image_id in self._files.keys() - self._boxes.keys():
                raise FeatureError(
                    f"{boxes}: has no boxes of image id {image_id}; fetch them, or move the folder "
                    "away"
                )

    def files(self, image_id: int) -> list[Path]:
        """Return the files with the vectors and the boxes of an image."""
        return [files[image_id] for files in (self._files, self._boxes) if files]

    @cached_property
    def streams(self) -> tuple[str]:
        """The one stream, told from the first image."""
        return (REGION,) if _npy(self._files[self.ids[0]]).ndim == 2 else (GRID,)

    def read(self, image_id: int) -> ImageFeatures:
        """Return the vectors of one image, and its boxes where there are any."""
        path = self._files[image_id]
        values = _npy(path)
        if values.ndim not in (2, 3):
            raise FeatureError(
                f"{path}: `feat` has the shape {list(values.shape)}, expected [n, dim] or [h, w, "
                "dim]"
            )
        if not values.size:
            raise no_rows(image_id, str(path))
        arrays = {self.streams[0]: values.reshape(-1, values.shape[-1])}
        if self._boxes:
            arrays[f"{self.streams[0]}/boxes"] = _npy(self._boxes[image_id])
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


def _npy(path: Path) -> np.ndarray:
    """Return the array of a .npy, or the one named ``feat`` of a .npz."""
    try:
        array = np.load(path, allow_pickle=False)
        if path.suffix == ".npz":
            with array as arrays:
                array = arrays["feat"]
        array = np.asarray(array)
    except Exception as error:  # numpy and zipfile raise whatever the damaged bytes happen to mean
        reason = cause(error)[:120]
        raise DamagedFeatures(
            f"{path}: truncated, damaged or without an array ({reason}); fetch it again"
        ) from error
    if array.dtype.kind not in "fiu":
        raise FeatureError(
            f"{path}: holds {array.dtype}, expected numbers; it is of another format"
        )
    return array


# ---- one HDF5 file


class M2Hdf5:
    """One HDF5 file with some datasets per image, as the code of M2 and those built on it read
    them.

    ``<id>_features`` [n, 2048], ``<id>_boxes`` [n, 4], ``<id>_cls_prob`` [n, classes]; DLCT and
    RSTNet: ``<id>_grids`` [49, 2048], ``<id>_size`` (height, width) of the resized picture that its
    boxes refer to, ``<id>_mask`` [n, 49] the cells a region touches.
    """

    _ARRAYS: ClassVar = {  # ending of a dataset -> how a store calls it
        "features": REGION,
        "boxes": f"{REGION}/boxes",
        "cls_prob": f"{REGION}/class_probabilities",
        "mask": f"{REGION}/cells",
        "grids": GRID,
    }

    def __init__(
        self, paths: Sequence[Path], lookup: ImageIdLookup, spec: ImportedFeatures
    ) -> None:
        """Find the images and what there is of each."""
        self._path = only_path(paths, "HDF5 file")
        import h5py

        self._names = EntryIndex()
        with self._reading(str(self._path)):
            self._file = h5py.File(self._path, "r", locking=False)
            self._datasets = set(self._file)
        suffixes = {key.rpartition("_")[2] for key in self._datasets}
        there = [name for suffix, name in self._ARRAYS.items() if suffix in suffixes]
        self.streams = tuple(name for name in there if name in (REGION, GRID))
        if not self.streams:
            raise FeatureError(
                f"{self._path}: has no dataset named <id>_features or <id>_grids; it is of another "
                "format"
            )
        for key in sorted(self._datasets):
            name, _, suffix = key.rpartition("_")
            if self._ARRAYS.get(suffix) == self.streams[0]:
                self._names.add(lookup.image_id(name, str(self._path)), name, str(self._path))
        self.ids = list(self._names)

    def files(self, image_id: int) -> list[Path]:
        """Return the one file."""
        return [self._path]

    def read(self, image_id: int) -> ImageFeatures:
        """Return all streams and columns of one image."""
        arrays: dict[str, np.ndarray] = {}
        for suffix, name in self._ARRAYS.items():
            is_used = name.split("/")[0] in self.streams
            if is_used and (name in self.streams or self._has(image_id, suffix)):
                arrays[name] = self._dataset(image_id, suffix)
        size = (0, 0)
        if self._has(image_id, "size"):
            sides = self._dataset(image_id, "size").ravel()
            if len(sides) != 2 or not ((sides >= 1) & (sides <= _LONGEST_SIDE)).all():
                raise FeatureError(
                    f"{self._path}, {self._names[image_id]}_size: holds "
                    f"{' '.join(map(str, sides[:4].tolist()))}, expected height and width in "
                    "pixels; the file is damaged or of another format"
                )
            size = round(float(sides[1])), round(float(sides[0]))
        return ImageFeatures(image_id, size, arrays)

    def _has(self, image_id: int, suffix: str) -> bool:
        return f"{self._names[image_id]}_{suffix}" in self._datasets

    def _dataset(self, image_id: int, suffix: str) -> np.ndarray:
        name = f"{self._names[image_id]}_{suffix}"
        where = f"{self._path}, {name}"
        with self._reading(where):
            data = self._file[name]
            if data.dtype.kind not in "fiu" or data.nbytes > _LARGEST:
                raise ValueError(f"{data.dtype} {list(data.shape)} are no numbers of one image")
            array = np.asarray(data[()])
        if not array.shape[:1] or not array.shape[0]:
            raise no_rows(image_id, where)
        return array

    @contextmanager
    def _reading(self, where: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # h5py raises whatever the damaged bytes happen to mean
            raise DamagedFeatures(
                f"{where}: missing, truncated or no HDF5 ({cause(error)[:200]}); fetch it again"
            ) from error
