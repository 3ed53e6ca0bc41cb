"""Vectors and columns as base64 text: files that do not say of which type their numbers are."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Sequence

import numpy as np

from recap.core.errors import FeatureError

_MOST = 2**31 - 1  # of a whole number: sides are stored as int32
_SAMPLE = 4096  # numbers that are looked at
_LEAST = 64  # fewer say nothing of their type
_USUAL = 6.0  # octaves between the first and the last tenth of features; more is looked at closely
_ABSURD = 40.0  # octaves; no features reach over 12 orders of magnitude, nor are they that large or small
_PLAUSIBLE = 24.0  # octaves around 1 within which the median of features is
_OTHERS = {
    "float16": "<f2",
    "float64": "<f8",
    "big-endian float32": ">f4",
    "big-endian float16": ">f2",
    "big-endian float64": ">f8",
}


def decode_vectors(field: bytes, rows: int, where: str) -> np.ndarray:
    """Return float32 [rows, width] from base64 text; the width follows from its length."""
    vectors = decode_array(field, "float32", (rows, _width(field, rows, where)), where)
    check_float32(vectors, where)
    return vectors


def decode_array(field: bytes, dtype: str, shape: Sequence[int], where: str) -> np.ndarray:
    """Return an array from base64 text; its bytes must be exactly those of ``shape``."""
    try:
        content = base64.b64decode(field, validate=True)
    except (binascii.Error, ValueError) as error:
        raise FeatureError(f"{where}: bad base64 ({error}); the file is damaged, fetch it again") from error
    size = np.dtype(dtype).itemsize * math.prod(shape)
    if len(content) != size:
        other = {size // 2: "half", 2 * size: "twice"}.get(len(content))
        remedy = (
            f"of {other} that width, it seems: write them as {dtype}" if other else "truncated or of another format"
        )
        raise FeatureError(
            f"{where}: holds {len(content)} bytes where {' x '.join(map(str, shape))} numbers of {dtype} take {size}; "
            f"they are {remedy}"
        )
    return np.frombuffer(content, dtype).reshape(*shape)


def whole(field: bytes, name: str, where: str) -> int:
    """Return a field as a whole number of zero or more."""
    if not field.isdigit() or len(field) > 10 or int(field) > _MOST:
        raise FeatureError(
            f"{where}: {name} is {field[:40]!r}, expected a whole number up to {_MOST}; the file is damaged"
        )
    return int(field)


def check_float32(vectors: np.ndarray, where: str) -> None:
    """Refuse numbers whose bytes are those of another type.

    Features of one image are within a few powers of two of each other. Read as another type than they were written in,
    they spread over dozens; read as the type that they were written in, they are close together again.
    """
    sample = vectors.ravel()[:_SAMPLE]
    if not np.count_nonzero(sample[0::2]) and np.count_nonzero(sample[1::2]) >= _LEAST:
        raise _other_type("float64", where)
    spread, middle = _octaves(sample)
    if spread <= _USUAL and abs(middle) <= _ABSURD:
        return
    found = {}
    for name, dtype in _OTHERS.items():
        other = np.frombuffer(sample.tobytes()[: sample.nbytes // 8 * 8], dtype)
        zeros = [float((half == 0).mean()) for half in (other[0::2], other[1::2])]
        width, centre = _octaves(other)
        # Halves of numbers of a coarser type are zero in turn; of real numbers either may be.
        if width < spread / 2 and abs(centre) < _PLAUSIBLE and abs(zeros[0] - zeros[1]) < 0.25:
            found[width] = name
    if found:
        raise _other_type(found[min(found)], where)
    if spread > _ABSURD or abs(middle) > _ABSURD:
        raise FeatureError(
            f"{where}: the features read as float32 reach over {spread:.0f} powers of two around "
            f"2^{middle:.0f}, which no features do; the file is damaged or of another type: write it as float32"
        )


def _octaves(numbers: np.ndarray) -> tuple[float, float]:
    """Return how many powers of two are between the first and the last tenth of the numbers that are not zero, and the
    power of two of their middle; zeros where too few numbers are left to tell."""
    with np.errstate(all="ignore"):
        sizes = np.abs(numbers.astype(np.float64))
    real = sizes[np.isfinite(sizes) & (sizes > 0)]
    if len(real) < _LEAST:
        return 0.0, 0.0
    if len(real) < 0.99 * np.count_nonzero(sizes):
        return np.inf, 0.0
    low, middle, high = np.log2(np.quantile(real, (0.1, 0.5, 0.9)))
    return float(high - low), float(middle)


def _other_type(name: str, where: str) -> FeatureError:
    return FeatureError(
        f"{where}: the features are no float32 but look like {name}; this format holds little-endian float32: write "
        "the file in that type"
    )


def _width(field: bytes, rows: int, where: str) -> int:
    """Return how many float32 numbers each of ``rows`` vectors has, from the length of base64 text."""
    size = len(field) // 4 * 3 - field[-2:].count(b"=")
    if rows < 1 or len(field) % 4 or size < 4 * rows or size % (4 * rows):
        half = rows and not len(field) % 4 and not size % (2 * rows)
        raise FeatureError(
            f"{where}: {size} bytes of features do not make {rows} vectors of float32; the file is "
            + ("of float16, it seems: write it as float32" if half else "truncated, damaged or of another format")
        )
    return size // (4 * rows)
