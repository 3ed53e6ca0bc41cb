"""Finds and decodes pictures in folders and zips."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from recap.core.errors import DamagedData, DataError, MissingData
from recap.core.process import cause
from recap.data.files.archives import DAMAGED

if TYPE_CHECKING:
    from PIL.Image import Image

# Pillow knows 40 more, among them EPS, for which it starts Ghostscript.
FORMATS = ("JPEG", "PNG", "TIFF", "WEBP", "GIF", "BMP")
MAX_PIXELS = 100_000_000
MAX_BYTES = 512 * 2**20
# Beside what it raises itself, Pillow lets out what Python says of an offset or a tag that is none.
_BROKEN = (*DAMAGED, SyntaxError, TypeError, AttributeError)
_BRIGHTEST = 2**16 - 1
# Below this, 16-bit values would leave 16 greys of 256: more likely 12 bits were stored in 16.
_DARKEST = 2**12


class BrokenPicture(Exception):
    """Bytes that are no whole picture."""


class TooManyPixels(DataError):
    """A picture of more than MAX_PIXELS."""


def open_picture(content: bytes) -> Image:
    """Open a picture of FORMATS without decoding it; whatever Pillow raises is the caller's to name."""
    from PIL import Image

    return Image.open(io.BytesIO(content), formats=FORMATS)


def decode_rgb(content: bytes, file: str) -> Image:
    """Return a picture as RGB; EXIF rotation is not applied, as in the published features."""
    from PIL import Image

    try:
        with open_picture(content) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise TooManyPixels(f"{file}: has {picture.width} x {picture.height} pixels, too many; scale it down")
            picture.load()
            deep = picture.mode == "F" or picture.mode.startswith("I")
            return (_of_eight_bits(picture, file) if deep else picture).convert("RGB")
    except Image.DecompressionBombError as error:
        raise TooManyPixels(f"{file}: has too many pixels ({error}); scale it down") from error
    except _BROKEN as error:
        words = cause(error).partition(" <_io.")[0]  # without the address of a buffer that no format fits
        raise BrokenPicture(f"truncated or no picture ({words}; {len(content)} bytes)") from error


def _of_eight_bits(picture: Image, file: str) -> Image:
    """Return a gray picture of 16 bits scaled to 8 (Pillow would clip every value above 255 to white)."""
    from PIL import Image

    values = np.asarray(picture)  # [height, width]
    most = int(values.max(initial=0))
    # Older Pillows read a PNG of 16 bits as 32-bit integers.
    sixteen = picture.mode not in ("I", "F") or (picture.mode == "I" and picture.format == "PNG")
    if not sixteen or 0 < most < _DARKEST:
        wrong = f"16-bit values up to {most} only, as pictures of 12 bits do" if sixteen else "values of 32 bits"
        raise DataError(
            f"{file}: holds {wrong}, and nothing says which is white; save it with 8 bits, or with 16 that use the "
            "whole range"
        )
    return Image.fromarray(np.rint(values.astype(np.float64) * (255 / _BRIGHTEST)).astype(np.uint8))


class ImageSource:
    """Pictures in one or more folders or zips, looked up by relative name, else by a base name that is unique."""

    def __init__(self, roots: Sequence[Path]) -> None:
        """Check that every root is a folder or a zip; zips are opened when they are first looked into."""
        self.roots, self._opened = [Path(root) for root in roots], dict[Path, zipfile.ZipFile]()
        for root in self.roots:
            if not root.exists():
                raise MissingData(f"{root}: no such folder or zip of images; correct the paths of the images")
            if not root.is_dir() and not zipfile.is_zipfile(root):
                raise DataError(f"{root}: neither a folder nor a whole zip of images; fetch it again")

    def read(self, file: str) -> bytes:
        """Return the bytes of a picture."""
        place = self.locate(file)
        if place is None:
            raise DataError(f"{file}: not found in {self}; add the image, or correct the paths of the images")
        root, name = place
        try:
            if root.is_dir():
                return (root / name).read_bytes()
            archive = self._zip(root)
            if archive.getinfo(name).file_size > MAX_BYTES:
                raise DataError(f"{file}: unpacks to more than {MAX_BYTES // 2**20} MiB; remove it from {root}")
            return archive.read(name)
        except DAMAGED as error:
            raise DamagedData(f"{file}: cannot be read from {root} ({error}); fetch it again") from error

    def open_rgb(self, file: str) -> Image:
        """Return a picture, decoded, as RGB; EXIF rotation is not applied, as in the published features."""
        try:
            return decode_rgb(self.read(file), file)
        except BrokenPicture as error:
            raise DataError(
                f"{file}: {error} in {self}; fetch it again or remove the image from the annotations"
            ) from error

    def missing(self, files: Iterable[str]) -> list[str]:
        """Return those of ``files`` that are in no root, in their order; only names are looked at."""
        return [file for file in files if self.locate(file) is None]

    def locate(self, file: str) -> tuple[Path, str] | None:
        """Return root and name of a picture, None if there is none; only names are looked at."""
        path = PurePosixPath(file)
        if not file or path.is_absolute() or ".." in path.parts or "\\" in file or "\0" in file:
            raise DataError(f"{file!r}: not a safe name of an image; use a name relative to the images, without '..'")
        places = [(root, file) for root in self.roots if self._holds(root, file)] or self._names.get(path.name, [])
        if len(places) > 1:
            both = " and ".join(f"{root}/{name}" for root, name in places[:2])
            raise DataError(f"{file}: found as {both}; remove one, or give the file with its folder")
        return places[0] if places else None

    def _holds(self, root: Path, file: str) -> bool:
        return (root / file).is_file() if root.is_dir() else file in self._zip(root).NameToInfo

    @cached_property
    def _names(self) -> dict[str, list[tuple[Path, str]]]:
        """Every file of every root by base name; built when a picture is first not found by its relative name."""
        names: dict[str, list[tuple[Path, str]]] = {}
        for root in self.roots:
            walked = (f"{folder}/{file}" for folder, _, files in os.walk(root) for file in files)
            relative = sorted(path.removeprefix(f"{root}/") for path in walked)
            for name in relative if root.is_dir() else self._zip(root).namelist():
                names.setdefault(name.rsplit("/", 1)[-1], []).append((root, name))
        names.pop("", None)
        return names

    def _zip(self, root: Path) -> zipfile.ZipFile:
        if root not in self._opened:
            try:
                self._opened[root] = zipfile.ZipFile(root)
            except DAMAGED as error:
                raise DamagedData(f"{root}: a damaged zip of images ({error}); fetch it again") from error
        return self._opened[root]

    def __str__(self) -> str:
        return ", ".join(map(str, self.roots))
