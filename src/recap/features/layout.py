"""What reader and writer of a feature store share: names, types, checksums.

Datasets of a file: ``ids`` int64 [images], rising; ``image_sizes`` int32 [images, 2], width and height in pixels (0, 0
where an imported file does not say); ``digests`` uint8 [images, 32], the sha256 of each image's rows; ``origins`` uint8
[images, 32], the sha256 of what each image is made from. For each stream
(``grid``, ``region``, ``segment``): ``<stream>/values`` [rows of all images, dim] in one piece and not compressed, so
that it can be mapped; ``<stream>/offsets`` int64 [images + 1]: image i has the rows offsets[i] to offsets[i + 1]; and,
where they exist, further columns [rows, ...] of ``COLUMNS``.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from recap.core.hashing import value_hash

LAYOUT = "recap-features-2"
GRID, REGION, SEGMENT = "grid", "region", "segment"
DTYPES = ("float16", "float32")
VALUES = "values"
COLUMNS = {
    "boxes": "float32",  # [rows, 4] left, top, right, bottom in pixels of the original picture
    "classes": "int32",  # [rows]
    "class_scores": "float32",  # [rows]
    "class_probabilities": "float32",  # [rows, classes]
    "attributes": "int32",  # [rows]
    "attribute_scores": "float32",  # [rows]
    "cells": "uint8",  # [rows, cells] the grid cells that a region touches
}
_MADE_BY = ("layout", "extractor_hash", "weights_sha256", "dtype")
_HASHED = (*_MADE_BY, "checksum", "index_checksum")


@dataclass(frozen=True)
class Packed:
    """One array of a store as it is laid out in the file."""

    path: Path
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Read rows into memory; unlike mapped pages they are given back when they are not used any more."""
        width = int(np.prod(self.shape[1:], dtype=np.int64))
        begin = self.offset + start * width * self.dtype.itemsize
        read = np.fromfile(self.path, self.dtype, (stop - start) * width, offset=begin)
        return read.reshape(stop - start, *self.shape[1:])

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.shape[0] * self.row_bytes


class Mapped:
    """A file in the address space of the process, read-only; pages come into memory when they are touched."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def array(self, packed: Packed) -> np.ndarray:
        """Return one of the file's arrays; it cannot be written."""
        count = int(np.prod(packed.shape, dtype=np.int64))
        return np.frombuffer(self._map, packed.dtype, count, packed.offset).reshape(packed.shape)

    def ahead(self, offset: int, size: int) -> None:
        """Tell the kernel that these bytes are wanted soon."""
        if hasattr(mmap, "MADV_WILLNEED"):
            start = offset - offset % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, start, offset + size - start)


def stream_arrays(arrays: Mapping[str, Packed], stream: str, *, rows: int) -> dict[str, Packed]:
    """Return the arrays of one stream by name, from all of a file by path.

    Raises:
        ValueError: an array has another type or another number of rows, or reaches over the end of the file.
        KeyError: the stream has no values.
    """
    found = {}
    for name in (VALUES, *COLUMNS):
        if name != VALUES and f"{stream}/{name}" not in arrays:
            continue
        packed = arrays[f"{stream}/{name}"]
        known = DTYPES if name == VALUES else (COLUMNS[name],)
        if packed.dtype.str not in [np.dtype(dtype).str for dtype in known] or packed.shape[0] != rows:
            raise ValueError(f"{stream}/{name} does not have the layout {LAYOUT!r}")
        if packed.offset + packed.nbytes > packed.path.stat().st_size:
            raise ValueError(f"{stream}/{name} reaches over the end of the file")
        found[name] = packed
    if len(found[VALUES].shape) != 2:
        raise ValueError(f"the values of {stream!r} do not have the layout {LAYOUT!r}")
    return found


def image_digest(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the sha256 over all arrays of one image, by name (``grid/values``), type, shape and bytes."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.name} {list(array.shape)}\0".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def checksum(digests: np.ndarray) -> str:
    """Return the checksum of a file from its images' digests uint8 [images, 32]."""
    return hashlib.sha256(np.ascontiguousarray(digests).data).hexdigest()


def index_checksum(ids: np.ndarray, image_sizes: np.ndarray, offsets: Mapping[str, np.ndarray]) -> str:
    """Return the sha256 of all that says which rows of which stream belong to which image."""
    digest = hashlib.sha256(ids.astype("<i8").tobytes() + image_sizes.astype("<i4").tobytes())
    for stream in sorted(offsets):
        digest.update(stream.encode() + b"\0" + offsets[stream].astype("<i8").tobytes())
    return digest.hexdigest()


def attributes_checksum(attributes: Mapping[str, str]) -> str:
    """Return a hash of all that a file says of itself."""
    return value_hash({key: text for key, text in attributes.items() if key != "attributes_checksum"})


def feature_hash(attributes: Mapping[str, str]) -> str:
    """Return the identity of a store from its attributes: equal for equal extractor, weights and values."""
    return value_hash({key: attributes[key] for key in _HASHED})


def made_by(attributes: Mapping[str, str]) -> str:
    """Return the hash of what made a store, whichever images it holds."""
    return value_hash({key: attributes[key] for key in _MADE_BY})
