"""Regions as text, one image a line of base64: bottom-up features (Anderson et al. 2018), and VinVL's and Oscar's.

Files have gigabytes and lines have megabytes: they are indexed in one pass, then read by position.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from recap.core.errors import FeatureError, MissingFeatures
from recap.core.log import progress
from recap.features.importers.job import EntryIndex, ImageIdLookup, no_rows, plain_files
from recap.features.origins import Mark, Origins, file_mark
from recap.features.records import REGION, ImageFeatures
from recap.settings.features import ImportedFeatures

_LONGEST_ID = 1024
_HEADERS = (b"image_id", b"img_id", b"id")  # what the first column is called
_MOST = 2**31 - 1  # of a whole number: sides are stored as int32
_WITH_BOX = 2054  # numbers of a VinVL vector, which ends with its box


class Lines(Origins, ABC):
    """The lines of several files by image id; memory holds their positions, never their content."""

    streams = (REGION,)

    def __init__(self, paths: Sequence[Path], lookup: ImageIdLookup, spec: ImportedFeatures) -> None:
        """Find all lines; of an image in ``spec.damaged``, the first that can be read, if there is one.

        As many lines without an image id as there are damaged images are passed over.
        """
        files = plain_files(paths, "TSV files")
        self._entries = EntryIndex()  # file, position and what messages call it
        doubtful: dict[int, list[tuple[Path, int, str]]] = {}
        broken = 0
        for file in files:
            lines = progress(self._starts(file), name=file.name, unit="lines")
            for number, (start, beginning) in enumerate(lines, start=1):
                where = f"{file}, line {number}"
                try:
                    image_id = lookup.image_id(_name(beginning, where), where)
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
            for entry in entries:
                self._entries[image_id] = entry
                try:
                    self.read(image_id)
                    break
                except FeatureError:
                    del self._entries[image_id]
        self.ids, self.origins = list(self._entries), self

    def _starts(self, path: Path) -> Iterator[tuple[int, bytes]]:
        """Yield byte position and beginning of each line."""
        position = 0
        with path.open("rb") as file:
            for line in file:
                if line.strip():
                    yield position, line[:_LONGEST_ID]
                position += len(line)

    @abstractmethod
    def read(self, image_id: int) -> ImageFeatures:
        """Return the features of one image."""

    def fields(self, image_id: int, counts: tuple[int, int]) -> tuple[list[bytes], str]:
        """Return the fields of an image's line, of which there is one of two numbers, and what messages call it."""
        where = self._entries[image_id][2]
        fields = [_plain(field, where) for field in self._line(image_id).rstrip(b"\r\n").split(b"\t")]
        if len(fields) not in counts:
            raise FeatureError(
                f"{where}: has {len(fields)} fields, expected {counts[0]} or {counts[1]}; it is truncated or of "
                "another format"
            )
        return fields, where

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
            return bytes(file.readline())


class BottomUpTsv(Lines):
    """The original six columns, or ten with classes and attributes.

    Six: image_id, image_w, image_h, num_boxes, boxes, features. Ten: img_id, img_h, img_w, objects_id, objects_conf,
    attrs_id, attrs_conf, num_boxes, boxes, features; ids are int64, all other arrays float32.
    """

    def read(self, image_id: int) -> ImageFeatures:
        """Return vectors and boxes of one image, and classes and attributes where the file has them."""
        fields, where = self.fields(image_id, (6, 10))
        first, second = (_whole(field, "a side of the image", where) for field in fields[1:3])
        count = _whole(fields[-3], "num_boxes", where)
        if not count:
            raise no_rows(image_id, where)
        arrays = {
            REGION: _vectors(fields[-1], count, where),
            f"{REGION}/boxes": _array(fields[-2], "float32", (count, 4), where),
        }
        if len(fields) == 6:
            return ImageFeatures(image_id, (first, second), arrays)
        columns = {"classes": "int64", "class_scores": "float32", "attributes": "int64", "attribute_scores": "float32"}
        for (name, dtype), field in zip(columns.items(), fields[3:7], strict=True):
            arrays[f"{REGION}/{name}"] = _array(field, dtype, (count,), where)
        return ImageFeatures(image_id, (second, first), arrays)


class VinvlTsv(Lines):
    """``features.tsv`` with its ``features.lineidx`` (position of each line), or both for each split.

    A line is image id, number of boxes, base64 of float32 [boxes, 2054]; in the packs for captioning, image id and a
    JSON with ``num_boxes`` and ``features``. The last six numbers are x1/W, y1/H, x2/W, y2/H, w/W, h/H and stay part
    of the vector. The file does not say W and H: boxes are those of a picture of 1 x 1.
    """

    def _starts(self, path: Path) -> Iterator[tuple[int, bytes]]:
        """Yield byte position and beginning of the lines that the index names."""
        index, size = path.with_suffix(".lineidx"), path.stat().st_size
        if not index.is_file():
            raise MissingFeatures(f"{index}: no such file; it must be beside the TSV: fetch it too")
        positions = index.read_bytes().split()
        if not positions or not all(line.isdigit() and len(line) < 19 for line in positions):
            raise FeatureError(f"{index}: expected one byte position per line; fetch it again")
        with path.open("rb") as file:
            for position in map(int, positions):
                file.seek(max(position - 1, 0))
                before = file.read(1) if position else b"\n"
                if position >= size or before != b"\n":
                    raise FeatureError(
                        f"{path}: no line starts at byte {position}, where its .lineidx says; the two files do not "
                        "belong together or one is truncated: fetch both again"
                    )
                yield position, file.read(_LONGEST_ID)

    def read(self, image_id: int) -> ImageFeatures:
        """Return the vectors of one image, and the boxes that end them."""
        fields, where = self.fields(image_id, (2, 3))
        text, content = fields[1:] if len(fields) == 3 else _from_json(fields[1], where)
        count = _whole(text, "the number of boxes", where)
        if not count:
            raise no_rows(image_id, where)
        values = _vectors(content, count, where)
        if values.shape[1] != _WITH_BOX:
            return ImageFeatures(image_id, (0, 0), {REGION: values})
        boxes = values[:, -6:-2].clip(0, 1)  # float32 may be a little above 1
        return ImageFeatures(image_id, (1, 1), {REGION: values, f"{REGION}/boxes": boxes})


def _name(line: bytes, where: str) -> str:
    name, tab, _ = line.partition(b"\t")
    if not tab:
        raise FeatureError(f"{where}: has no tab after an image id; truncated or no TSV")
    if name in _HEADERS:
        raise FeatureError(f"{where}: is a header, which these files do not have; remove the line")
    return _plain(name, where).decode("utf-8", "replace").strip()


def _plain(field: bytes, where: str) -> bytes:
    if field[:2] in (b"b'", b'b"'):
        raise FeatureError(
            f"{where}: {field[:12]!r} is Python's print of bytes; write what is between the quotes alone"
        )
    return field


def _from_json(field: bytes, where: str) -> tuple[bytes, bytes]:
    try:
        values: Mapping[str, object] = json.loads(field)
        return str(values["num_boxes"]).encode(), str(values["features"]).encode()
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise FeatureError(
            f"{where}: no JSON with num_boxes and features ({reason}); truncated or of another format"
        ) from error


def _whole(field: bytes, name: str, where: str) -> int:
    """Return a field as a whole number of zero or more."""
    if not field.isdigit() or len(field) > 10 or int(field) > _MOST:
        raise FeatureError(
            f"{where}: {name} is {field[:40]!r}, expected a whole number up to {_MOST}; the file is damaged"
        )
    return int(field)


def _vectors(field: bytes, rows: int, where: str) -> np.ndarray:
    """Return float32 [rows, width] from base64; the width follows from its length."""
    size = len(field) // 4 * 3 - field[-2:].count(b"=")
    if size < 4 * rows or size % (4 * rows):
        raise FeatureError(
            f"{where}: {size} bytes of features do not make {rows} vectors of float32; the file is truncated, damaged "
            "or of another format"
        )
    return _array(field, "float32", (rows, size // (4 * rows)), where)


def _array(field: bytes, dtype: str, shape: Sequence[int], where: str) -> np.ndarray:
    """Return an array from base64, whose bytes must be exactly those of ``shape``."""
    try:
        content = base64.b64decode(field, validate=True)
    except ValueError as error:
        raise FeatureError(f"{where}: bad base64 ({error}); the file is damaged, fetch it again") from error
    size = np.dtype(dtype).itemsize * math.prod(shape)
    if len(content) != size:
        raise FeatureError(
            f"{where}: holds {len(content)} bytes where {' x '.join(map(str, shape))} numbers of {dtype} take {size}; "
            "the file is truncated or of another format"
        )
    return np.frombuffer(content, dtype).reshape(*shape)
