"""The header of a feature store: what the file holds and where, in front of what HDF5 reads.

HDF5 leaves the start of a file to its writer (the "user block"). Ours holds ``MAGIC``, the size of the block, the
sha256 of the rest of the block, and JSON: the length of the file, its attributes, the type, shape and offset of each
array, and the sha256 of all bytes behind the block but those of features, which the images' digests cover. So a store
is read without libhdf5, which may spin for ever or crash over a damaged file. Any HDF5 program can read it, too.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from recap.core.log import log
from recap.features.hdf5 import ask
from recap.features.layout import Packed, attributes_checksum, checksum, feature_hash, index_checksum

MAGIC = b"RECAPFS1"
_HDF5 = b"\x89HDF\r\n\x1a\n"  # how a file without a user block begins
_START = len(MAGIC) + 8 + 32
_LEAST, _MOST = 2**12, 2**24  # bytes of the block; values start at pages of memory, also behind it
_PIECE = 2**24  # bytes read at a time


@dataclass(frozen=True)
class Contents:
    """What a store says of itself.

    Attributes:
        attributes: by name.
        index: arrays that say which rows belong to which image, by path (``ids``, ``grid/offsets``).
        arrays: where the other arrays are, by path (``grid/values``).
    """

    attributes: dict[str, str]
    index: dict[str, np.ndarray]
    arrays: dict[str, Packed]


def block_size(attributes: Mapping[str, str], arrays: int) -> int:
    """Return the size of the block for these attributes and so many arrays."""
    needed = _START + len(json.dumps(dict(attributes))) + 256 * (arrays + 4)
    return max(_LEAST, 1 << (needed - 1).bit_length())


def seal(path: Path, attributes: Mapping[str, str], arrays: Mapping[str, Packed]) -> None:
    """Write the header of a file whose structure is finished, whether its features are written or not."""
    size = block_size(attributes, len(arrays))
    with path.open("r+b") as file:
        length = os.fstat(file.fileno()).st_size
        said = {
            "bytes": length,
            "attributes": dict(attributes),
            "arrays": {name: [packed.dtype.str, packed.shape, packed.offset] for name, packed in arrays.items()},
            "rest": _rest(file, size, length, arrays),
        }
        block = json.dumps(said, sort_keys=True).encode().ljust(size - _START, b"\0")
        file.seek(0)
        file.write(MAGIC + size.to_bytes(8, "little") + hashlib.sha256(block).digest() + block)


def read(path: Path) -> Contents:
    """Return what a store says of itself, checked against its checksums.

    A store of earlier versions has no header; it is read by a process of its own.

    Raises:
        ValueError: no feature store, or damaged.
        UnreadableHdf5: the process of its own says why it cannot read it.
    """
    with path.open("rb") as file:
        start = file.read(_START)
        if start.startswith(_HDF5):
            return _without_header(path)
        if not start.startswith(MAGIC) or len(start) < _START:
            raise ValueError("it does not begin like a store")
        size = int.from_bytes(start[len(MAGIC) : len(MAGIC) + 8], "little")
        block = file.read(size - _START) if _LEAST <= size <= _MOST else b""
        if hashlib.sha256(block).digest() != start[-32:]:
            raise ValueError("the header does not match its checksum")
        said = json.loads(block.rstrip(b"\0"))
        length = os.fstat(file.fileno()).st_size
        if length != said["bytes"]:
            raise ValueError(f"it has {length} bytes, not {said['bytes']}")
        packed = _packed(path, said["arrays"])
        if _rest(file, size, length, packed) != said["rest"]:
            raise ValueError("the index does not match its checksum")
    index = {name: array.rows(0, array.shape[0]) for name, array in packed.items() if _is_index(name)}
    return Contents(said["attributes"], index, {name: packed[name] for name in packed if not _is_index(name)})


def _rest(file: BinaryIO, size: int, length: int, arrays: Mapping[str, Packed]) -> str:
    """Return the sha256 of what follows the block and is in no array of features."""
    digest = hashlib.sha256()
    features = sorted((p.offset, p.offset + p.nbytes) for name, p in arrays.items() if not _is_index(name))
    starts, stops = [size, *(stop for _, stop in features)], [*(start for start, _ in features), length]
    for start, stop in zip(starts, stops, strict=True):
        file.seek(start)
        for place in range(start, stop, _PIECE):
            digest.update(file.read(min(_PIECE, stop - place)))
    return digest.hexdigest()


def _without_header(path: Path) -> Contents:
    found = ask("store", path)
    log.info(f"{path}: made by an earlier version, without a header; a separate process reads its structure")
    _check_index(found["attributes"], found["read"])
    arrays = {name: each for name, each in _packed(path, found["places"]).items() if not _is_index(name)}
    return Contents(found["attributes"], found["read"], arrays)


def _packed(path: Path, places: Mapping[str, tuple[str, Sequence[int], int]]) -> dict[str, Packed]:
    """Return the arrays of a file from their types, shapes and offsets."""
    return {name: Packed(path, np.dtype(dtype), tuple(shape), at) for name, (dtype, shape, at) in places.items()}


def _is_index(path: str) -> bool:
    """Return whether an array says which rows belong to which image; the others are features."""
    return "/" not in path or path.endswith("/offsets")


def _check_index(attributes: Mapping[str, str], index: Mapping[str, np.ndarray]) -> None:
    """Compare the attributes and the index of a file without a header with their checksums.

    Raises:
        ValueError: something was changed after the file was made.
        KeyError: an attribute or an array is missing.
    """
    offsets = {name.split("/")[0]: array for name, array in index.items() if "/" in name}
    if index_checksum(index["ids"], index["image_sizes"], offsets) != attributes["index_checksum"]:
        raise ValueError("the index does not match its checksum")
    if len(index["digests"]) != len(index["ids"]) or checksum(index["digests"]) != attributes["checksum"]:
        raise ValueError("the images' checksums do not match their own")
    if feature_hash(attributes) != attributes["feature_hash"]:
        raise ValueError("the feature_hash does not match the content")
    # Stores that were made before this attribute existed lack it.
    if attributes.get("attributes_checksum", attributes_checksum(attributes)) != attributes_checksum(attributes):
        raise ValueError("the attributes do not match their checksum")
