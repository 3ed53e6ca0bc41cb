"""Finds and decodes pictures in folders and zips, and puts them side by side."""

from __future__ import annotations

import io
import unicodedata
import zipfile
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from recap.core.errors import DataError, first_line
from recap.core.files import reading
from recap.core.log import log
from recap.core.process import cause
from recap.data.files.archives import DAMAGED

if TYPE_CHECKING:
    from PIL.Image import Image

# Parts the files of an example that is seen in several pictures: "frontal.png|lateral.png".
VIEWS = "|"
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


def decode_rgb(content: bytes, file: str) -> Image:
    """Return a picture as RGB, as it is stored
    (`turned` applies its EXIF orientation; Pillow does so for a TIFF)."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise TooManyPixels(
                    f"{file}: has {picture.width} x {picture.height} pixels, too many; scale it "
                    "down"
                )
            picture.load()
            deep = picture.mode == "F" or picture.mode.startswith("I")
            return (_of_eight_bits(picture, file) if deep else picture).convert("RGB")
    except Image.DecompressionBombError as error:
        raise TooManyPixels(f"{file}: has too many pixels ({error}); scale it down") from error
    except _BROKEN as error:
        # without the address of a buffer that no format fits
        words = cause(error).partition(" <_io.")[0]
        raise BrokenPicture(f"truncated or no picture ({words}; {len(content)} bytes)") from error


def turned(picture: Image, file: str) -> Image | None:
    """Return a picture turned or mirrored by its EXIF data; None: nothing to turn."""
    from PIL import ImageOps
    from PIL.ExifTags import Base

    try:
        if picture.getexif().get(Base.Orientation) in range(2, 9):
            return ImageOps.exif_transpose(picture)
    except Exception as error:  # Pillow lets out whatever its parser meets in damaged data
        log.warning(
            f"{file}: its EXIF data are damaged ({first_line(error)}); it is taken as it is stored"
        )
    return None


def _of_eight_bits(picture: Image, file: str) -> Image:
    """Return a gray picture of 16 bits scaled to 8 (Pillow would clip values above 255)."""
    from PIL import Image

    values = np.asarray(picture)  # [height, width]
    most = int(values.max(initial=0))
    # Older Pillows read a PNG of 16 bits as 32-bit integers.
    sixteen = picture.mode not in ("I", "F") or (picture.mode == "I" and picture.format == "PNG")
    if not sixteen or 0 < most < _DARKEST:
        raise DataError(
            f"{file}: holds {values.dtype} values up to {most:,}, and nothing says which is white; "
            "save it with 8 bits, or with 16 that use the whole range"
        )
    eight = np.rint(values.astype(np.float64) * (255 / _BRIGHTEST)).astype(np.uint8)
    scaled = Image.fromarray(eight)
    scaled.info["exif"] = picture.info.get("exif")
    return scaled


def composed(name: str) -> str:
    """Return a name in Unicode's composed form, in which an accent is part of its letter."""
    return unicodedata.normalize("NFC", name)


class ImageSource:
    """Pictures in one or more folders or zips, looked up
    by relative name, else by a base name that is unique.

    A name that is not there as it is written is compared in Unicode's composed form: macOS
    decomposes accents.
    """

    def __init__(self, roots: Sequence[Path], *, upright: bool = False) -> None:
        """Open the zips; every other root must be a folder."""
        self.roots = [Path(root) for root in roots]
        self._zips: dict[Path, zipfile.ZipFile] = {}
        self.upright = upright  # pictures are turned as their EXIF data say
        # pictures that were read and not turned, though these data say so
        self.lying: set[str] = set()
        for root in self.roots:
            if not root.is_dir():
                with reading(root, DataError, missing="correct the paths of the images"):
                    self._zips[root] = zipfile.ZipFile(root)

    def read(self, file: str) -> bytes:
        """Return the bytes of a picture."""
        place = self.locate(file)
        if place is None:
            hint = self.other_case(file)
            raise DataError(
                f"{file}: not found in {self}{hint}; add the image, or correct the paths of the "
                "images"
            )
        root, name = place
        with reading(f"{file} in {root}", DataError, damaged="fetch it again"):
            if root not in self._zips:
                return (root / name).read_bytes()
            if self._zips[root].getinfo(name).file_size > MAX_BYTES:
                raise DataError(
                    f"{file}: unpacks to more than {MAX_BYTES // 2**20} MiB; remove it from {root}"
                )
            return self._zips[root].read(name)

    def open_rgb(self, file: str) -> Image:
        """Return a picture, decoded, as RGB."""
        try:
            picture = decode_rgb(self.read(file), file)
        except BrokenPicture as error:
            raise DataError(
                f"{file}: {error} in {self}; fetch it again or remove the image from the "
                "annotations"
            ) from error
        upright = turned(picture, file)
        if upright is None or self.upright:
            return upright or picture
        self.lying.add(file)
        return picture

    def warn_of_lying(self) -> None:
        """Name pictures that were read as stored, though their EXIF data would turn them."""
        if self.lying:
            log.warning(
                f"{len(self.lying):,} pictures are not upright by their EXIF orientation (such as "
                f"{', '.join(sorted(self.lying)[:3])}); they were read as they are stored, as for "
                "published features. To turn photos of your own, set "
                "`upright: true` in the data set"
            )

    def missing(self, files: Iterable[str]) -> list[str]:
        """Return those of ``files`` that are in no root, in their order.

        Only names are looked at.
        """
        return [file for file in files if self.locate(file) is None]

    def locate(self, file: str) -> tuple[Path, str] | None:
        """Return root and name of a picture, None if there is none; only names are looked at."""
        path = PurePosixPath(file)
        if not file or path.is_absolute() or ".." in path.parts or "\\" in file or "\0" in file:
            raise DataError(
                f"{file!r}: not a safe name of an image; use a name relative to the images, "
                "without '..'"
            )
        places = (
            [(root, file) for root in self.roots if self._holds(root, file)]
            or self._names.get(f"./{composed(file)}")
            or self._names.get(composed(path.name), [])
        )
        if len(places) > 1:
            both = " and ".join(f"{root}/{name}" for root, name in places[:2])
            raise DataError(
                f"{file}: found as {both}; remove one, or give the file with its folder"
            )
        return places[0] if places else None

    def other_case(self, file: str) -> str:
        """Return a remark for an error, if a picture
        that is not there is there with other capitals, or nothing."""
        wanted = composed(PurePosixPath(file).name).casefold()
        return next(
            (f" ({name} is there)" for name in self._names if name.casefold() == wanted), ""
        )

    def _holds(self, root: Path, file: str) -> bool:
        if root in self._zips:
            return file in self._zips[root].NameToInfo
        return (root / file).is_file()

    @cached_property
    def _names(self) -> dict[str, list[tuple[Path, str]]]:
        """Every file by its relative name (./a/b.jpg) and its base name (b.jpg), composed.

        Built when first needed.
        """
        names: dict[str, list[tuple[Path, str]]] = {}
        for root in self.roots:
            for name in self._files_of(root):
                for key in (f"./{name}", name.rsplit("/", 1)[-1]):
                    names.setdefault(composed(key), []).append((root, name))
        names.pop("", None)
        return names

    def _files_of(self, root: Path) -> list[str]:
        """Return the relative names of all files in a folder or zip."""
        if root in self._zips:
            return self._zips[root].namelist()
        files = filter(Path.is_file, root.rglob("*"))
        return sorted(file.relative_to(root).as_posix() for file in files)

    def __str__(self) -> str:
        return ", ".join(map(str, self.roots))


# ---- several pictures as one


def read_photo(source: ImageSource, file: str) -> Image:
    """Return the picture of an example, with its views side by side where it has several."""
    return beside([source.open_rgb(view) for view in file.split(VIEWS)])


def beside(images: Sequence[Image], gap: int = 0) -> Image:
    """Return images side by side on white, with their upper edges in one line."""
    from PIL import Image

    width = sum(image.width + gap for image in images) - gap
    sheet = Image.new("RGB", (width, max(image.height for image in images)), "white")
    left = 0
    for image in images:
        sheet.paste(image, (left, 0))
        left += image.width + gap
    return sheet


def below(images: Sequence[Image], gap: int = 0) -> Image:
    """Return images below each other on white, with their left edges in one line."""
    from PIL import Image

    height = sum(image.height + gap for image in images) - gap
    sheet = Image.new("RGB", (max(image.width for image in images), height), "white")
    top = 0
    for image in images:
        sheet.paste(image, (0, top))
        top += image.height + gap
    return sheet
