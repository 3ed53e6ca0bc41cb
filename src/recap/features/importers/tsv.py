"""Regions as TSV with base64, one image per line, some megabytes long: indexed in one pass, then read by position.

Bottom-up (Anderson et al. 2018), the original six columns, or ten with classes. Six: image_id, image_w, image_h,
num_boxes, boxes, features. Ten: img_id, img_h, img_w, objects_id, objects_conf, attrs_id, attrs_conf, num_boxes, boxes,
features; ids are int64, all other arrays float32.

VinVL and Oscar: ``features.tsv`` with its ``features.lineidx`` (byte position of each line), or one of each for every
split (``train.feature.tsv``). A line is image id, number of boxes, base64 of float32 [boxes, 2054]; in the packs for
captioning, image id and a JSON with ``num_boxes`` and ``features``. The last six numbers are x1/W, y1/H, x2/W, y2/H,
w/W, h/H and stay part of the vector. The file does not say W and H: boxes are those of a picture of 1 x 1.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recap.core.errors import FeatureError, MissingFeatures
from recap.core.log import progress
from recap.features.importers.base import EntryIndex, ImageIdLookup, no_rows, plain_files
from recap.features.origins import Mark, Origins, file_mark
from recap.features.records import REGION, ImageFeatures
from recap.settings.features import ImportedFeatures

_LONGEST_ID = 1024
_HEADERS = (b"image_id", b"img_id", b"id")  # what the first column is called
_MOST = 2**31 - 1  # of a whole number: sides are stored as int32
_WITH_BOX = 2054  # numbers of a VinVL vector, which ends with its box
_CORNERS = slice(-6, -2)


class BottomUpTsv:
    """Regions of several TSV files, which the original download comes in."""

    streams = (REGION,)

    def __init__(self, paths: Sequence[Path], lookup: ImageIdLookup, spec: ImportedFeatures) -> None:
        """Find the images of all files."""
        self._lines = Lines(plain_files(paths, "TSV files"), lookup, damaged=spec.damaged)
        self.ids, self.origins = self._lines.ids, self._lines
        self._lines.settle(self.read)

    def read(self, image_id: int) -> ImageFeatures:
        """Return vectors and boxes of one image, and classes and attributes where the file has them."""
        fields, where = self._lines.fields(image_id)
        if len(fields) not in (6, 10):
            raise FeatureError(f"{where}: has {len(fields)} fields, expected 6 or 10; truncated or of another format")
        ten = len(fields) == 10
        first, second = (whole(field, "a side of the image", where) for field in fields[1:3])
        count = whole(fields[-3], "num_boxes", where)
        if not count:
            raise no_rows(image_id, where)
        arrays: dict[str, np.ndarray] = {
            REGION: decode_vectors(fields[-1], count, where),
            f"{REGION}/boxes": decode_array(fields[-2], "float32", (count, 4), where),
        }
        if ten:
            columns = (("classes", "int64"), ("class_scores", "float32"), ("attributes", "int64"))
            for (name, dtype), field in zip((*columns, ("attribute_scores", "float32")), fields[3:7], strict=True):
                arrays[f"{REGION}/{name}"] = decode_array(field, dtype, (count,), where)
        return ImageFeatures(image_id, (second, first) if ten else (first, second), arrays)


class VinvlTsv:
    """Regions of one TSV or several."""

    streams = (REGION,)

    def __init__(self, paths: Sequence[Path], lookup: ImageIdLookup, spec: ImportedFeatures) -> None:
        """Find the images through the .lineidx beside each TSV."""
        files = plain_files(paths, "TSV files")
        offsets = {path: _offsets(path.with_suffix(".lineidx")) for path in files}
        self._lines = Lines(files, lookup, offsets=offsets, damaged=spec.damaged)
        self.ids, self.origins = self._lines.ids, self._lines
        self._lines.settle(self.read)

    def read(self, image_id: int) -> ImageFeatures:
        """Return the vectors of one image."""
        fields, where = self._lines.fields(image_id)
        if len(fields) not in (2, 3):
            raise FeatureError(f"{where}: has {len(fields)} fields, expected 2 or 3; truncated or of another format")
        text, content = fields[1:] if len(fields) == 3 else _from_json(fields[1], where)
        count = whole(text, "the number of boxes", where)
        if not count:
            raise no_rows(image_id, where)
        values = decode_vectors(content, count, where)
        if values.shape[1] != _WITH_BOX:
            return ImageFeatures(image_id, (0, 0), {REGION: values})
        # Of a picture of 1 x 1, because the file does not say its size; float32 may be a little above 1.
        boxes = values[:, _CORNERS].clip(0, 1)
        return ImageFeatures(image_id, (1, 1), {REGION: values, f"{REGION}/boxes": boxes})


def _offsets(path: Path) -> list[int]:
    if not path.is_file():
        raise MissingFeatures(f"{path}: no such file; it must be beside the TSV: fetch it too")
    lines = path.read_bytes().split()
    if not lines or not all(line.isdigit() and len(line) < 19 for line in lines):
        raise FeatureError(f"{path}: expected one byte position per line; fetch it again")
    return [int(line) for line in lines]


def _from_json(field: bytes, where: str) -> tuple[bytes, bytes]:
    try:
        values = json.loads(field)
        return str(values["num_boxes"]).encode(), str(values["features"]).encode()
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise FeatureError(
            f"{where}: no JSON with num_boxes and features ({reason}); truncated or of another format"
        ) from error


class Lines(Origins):
    """The lines of several files by image id; memory holds their positions, never their content."""

    def __init__(
        self,
        files: Sequence[Path],
        lookup: ImageIdLookup,
        *,
        offsets: Mapping[Path, Sequence[int]] | None = None,
        damaged: Collection[int] = (),
    ) -> None:
        """Find all lines; ``offsets`` are byte positions of each file's lines, if they are known.

        Images in ``damaged`` may have several lines, of which `settle` takes a whole one; as many lines without an
        image id are passed over.
        """
        self._entries = EntryIndex()
        self._doubtful: dict[int, list[Any]] = {}
        broken = 0
        for file in files:
            places = _starts(file) if offsets is None else _checked(file, offsets[file])
            for number, (start, name) in enumerate(progress(places, name=file.name, unit="lines"), start=1):
                where = f"{file}, line {number}"
                try:
                    image_id = lookup.image_id(_first(name, where), where)
                except FeatureError:
                    broken += 1
                    if broken > len(damaged):
                        raise
                    continue
                if image_id is not None and image_id in damaged:
                    self._doubtful.setdefault(image_id, []).append((file, start, where))
                else:
                    self._entries.add(image_id, (file, start, where), where)
        if not self._entries.ids() and not lookup.unfit:
            raise FeatureError(f"{files[0]}: holds no lines; fetch it again")

    def settle(self, read: Callable[[int], object]) -> None:
        """Keep of each image that has damaged lines the first that can be read; an image without one is left out."""
        for image_id, entries in self._doubtful.items():
            for entry in entries:
                self._entries.add(image_id, entry, entry[2])
                try:
                    read(image_id)
                    break
                except FeatureError:
                    self._entries.remove(image_id)

    def ids(self) -> list[int]:
        """Return the ids of all images."""
        return self._entries.ids()

    def fields(self, image_id: int) -> tuple[list[bytes], str]:
        """Return the fields of an image's line, and words that say where it is."""
        where = self._entries[image_id][2]
        return [_plain(field, where) for field in self._line(image_id).rstrip(b"\r\n").split(b"\t")], where

    def mark(self, image_id: int) -> Mark:
        """Return the mark of the file that has an image's line, and where the line starts."""
        path, start, _ = self._entries[image_id]
        return [[start, 0], file_mark(path)]

    def content(self, image_id: int) -> str:
        """Return the hash of an image's line."""
        return hashlib.sha256(self._line(image_id)).hexdigest()

    def _line(self, image_id: int) -> bytes:
        path, start, _ = self._entries[image_id]
        with path.open("rb") as file:
            file.seek(start)
            return file.readline()


def _starts(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield byte position and beginning of each line, reading the file once."""
    position = 0
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                yield position, line[:_LONGEST_ID]
            position += len(line)


def _checked(path: Path, offsets: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the given positions and the beginnings of the lines there."""
    size = path.stat().st_size
    with path.open("rb") as file:
        for position in offsets:
            file.seek(max(position - 1, 0))
            before = file.read(1) if position else b"\n"
            if position >= size or before != b"\n":
                raise FeatureError(
                    f"{path}: no line starts at byte {position}, where its .lineidx says; the two files do not belong "
                    "together or one is truncated: fetch both again"
                )
            yield position, file.read(_LONGEST_ID)


def _first(line: bytes, where: str) -> str:
    name, tab, _ = line.partition(b"\t")
    if not tab:
        raise FeatureError(f"{where}: has no tab after an image id; truncated or no TSV")
    if name in _HEADERS:
        raise FeatureError(f"{where}: is a header, which these files do not have; remove the line")
    return _plain(name, where).decode("utf-8", "replace").strip()


def _plain(field: bytes, where: str) -> bytes:
    """Refuse what `print` makes of Python's bytes; lengths are checked later."""
    if field[:2] in (b"b'", b'b"'):
        raise FeatureError(
            f"{where}: {field[:12]!r} is Python's print of bytes; write what is between the quotes alone"
        )
    return field


def decode_vectors(field: bytes, rows: int, where: str) -> np.ndarray:
    """Return float32 [rows, width] from base64 text; the width follows from its length."""
    size = len(field) // 4 * 3 - field[-2:].count(b"=")
    if rows < 1 or len(field) % 4 or size < 4 * rows or size % (4 * rows):
        raise FeatureError(
            f"{where}: {size} bytes of features do not make {rows} vectors of little-endian float32; the file is "
            "truncated, damaged, or of another format or type"
        )
    return decode_array(field, "float32", (rows, size // (4 * rows)), where)


def decode_array(field: bytes, dtype: str, shape: Sequence[int], where: str) -> np.ndarray:
    """Return an array from base64 text; its bytes must be exactly those of ``shape``."""
    try:
        content = base64.b64decode(field, validate=True)
    except (binascii.Error, ValueError) as error:
        raise FeatureError(f"{where}: bad base64 ({error}); the file is damaged, fetch it again") from error
    size = np.dtype(dtype).itemsize * math.prod(shape)
    if len(content) != size:
        raise FeatureError(
            f"{where}: holds {len(content)} bytes where {' x '.join(map(str, shape))} numbers of {dtype} take {size}; "
            "the file is truncated, or of another format or type"
        )
    return np.frombuffer(content, dtype).reshape(*shape)


def whole(field: bytes, name: str, where: str) -> int:
    """Return a field as a whole number of zero or more."""
    if not field.isdigit() or len(field) > 10 or int(field) > _MOST:
        raise FeatureError(
            f"{where}: {name} is {field[:40]!r}, expected a whole number up to {_MOST}; the file is damaged"
        )
    return int(field)
