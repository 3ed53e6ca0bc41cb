"""Text files with one image per line, some megabytes long: indexed in one pass, then read by position."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from recap.core.errors import FeatureError
from recap.core.log import progress
from recap.features.importers.base import EntryIndex, ImageIdLookup
from recap.features.origins import Mark, file_mark

_LONGEST_ID = 1024
_HEADERS = (b"image_id", b"img_id", b"id")  # what the first column is called


class Lines:
    """The lines of several files by image id; memory holds their positions, never their content."""

    def __init__(
        self,
        files: Sequence[Path],
        lookup: ImageIdLookup,
        *,
        offsets: Mapping[Path, Sequence[int]] | None = None,
        damaged: Collection[int] = (),
    ) -> None:
        """Find all lines.

        Args:
            files: the files.
            lookup: turns names into image ids.
            offsets: of each file the byte positions of its lines, if they are known.
            damaged: images that may have several lines, of which `settle` takes a whole one; as many lines without an
                image id are passed over.
        """
        self._entries = EntryIndex()
        self._doubtful: dict[int, list[Any]] = {}
        broken = 0
        for file in files:
            found = _starts(file) if offsets is None else _given(file, offsets[file])
            for number, (start, name) in enumerate(progress(found, name=file.name, unit="lines"), start=1):
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


def _given(path: Path, offsets: Sequence[int]) -> Iterator[tuple[int, bytes]]:
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
    """Refuse what `print` makes of Python's bytes; numbers.py checks the rest."""
    if field[:2] in (b"b'", b'b"'):
        raise FeatureError(
            f"{where}: {field[:12]!r} is Python's print of bytes; write what is between the quotes alone"
        )
    return field
