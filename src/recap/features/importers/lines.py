"""Text files with one image per line, some megabytes long: indexed in one pass, then read by position."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from recap.core.errors import FeatureError
from recap.core.progress import progress
from recap.features.importers.base import EntryIndex, ImageIdLookup
from recap.features.origins import Mark, file_mark

_LONGEST_ID = 1024


class Lines:
    """The lines of several files by image id; memory holds their positions, never their content."""

    def __init__(self, files: Sequence[Path], lookup: ImageIdLookup, *, offsets: Sequence[int] | None = None) -> None:
        """Find all lines; ``offsets`` are the byte positions of the lines of the only file, if they are known.

        Raises:
            FeatureError: an image is duplicated, a line has no tab, or there are no lines.
        """
        self._entries = EntryIndex()
        for file in files:
            found = _starts(file) if offsets is None else _given(file, offsets)
            for number, (start, name) in enumerate(progress(found, name=file.name, unit="lines"), start=1):
                where = f"{file}, line {number}"
                text = name.decode("utf-8", "replace").strip()
                self._entries.add(lookup.image_id(text, where), (file, start, where), where)
        if not self._entries.ids():
            raise FeatureError(f"{files[0]}: holds no lines; fetch it again")

    def ids(self) -> list[int]:
        """Return the ids of all images."""
        return self._entries.ids()

    def fields(self, image_id: int) -> tuple[list[bytes], str]:
        """Return the fields of an image's line, and words that say where it is."""
        return self._line(image_id).rstrip(b"\r\n").split(b"\t"), self._entries[image_id][2]

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
    """Yield byte position and first field of each line, reading the file once."""
    position = 0
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                yield position, _first(line, path, position)
            position += len(line)


def _given(path: Path, offsets: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the given positions and the first field found there."""
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
            yield position, _first(file.read(_LONGEST_ID), path, position)


def _first(line: bytes, path: Path, position: int) -> bytes:
    name, tab, _ = line[:_LONGEST_ID].partition(b"\t")
    if not tab:
        raise FeatureError(f"{path}: the line at byte {position} has no tab after an image id; truncated or no TSV")
    return name
