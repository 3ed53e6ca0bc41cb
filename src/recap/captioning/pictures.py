"""Photos as people give them: files, Pillow's pictures and arrays, each as an upright RGB picture."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np

from recap.core.errors import DataError, MissingData, first_line
from recap.core.log import log
from recap.core.process import bounded
from recap.data.files.images import FORMATS, MAX_BYTES, BrokenPicture, ImageSource, decode_rgb

if TYPE_CHECKING:
    from PIL.Image import Image

Photo: TypeAlias = Union[str, Path, bytes, "Image", np.ndarray]
"""A file, or its bytes; a picture of Pillow; an array uint8 [height, width] or [height, width, 3 or 4], or uint16
[height, width]."""

_CHANNELS = (3, 4)
_WILD = "*?["
_READ_SECONDS = 60  # of at most MAX_BYTES
MOST_PIXELS = 50_000_000  # larger photos are halved, so that a batch fits into memory; no extractor sees so many


def name_of(photo: Photo, number: int) -> str:
    """Return what a photo is called in results and errors: its path, or its number among those given, from 1."""
    if isinstance(photo, str | Path):
        return str(photo)
    if isinstance(photo, np.ndarray):
        return f"array {number}"
    if isinstance(photo, bytes):
        return f"photo {number}"
    return str(getattr(photo, "filename", "")) or f"picture {number}"


def read_photo(photo: Photo, name: str) -> Image:
    """Return a photo as an RGB picture, turned as its EXIF data say.

    It is decoded as the pictures of data sets are: gray of 16 bits is scaled, CMYK converted, of a moving picture the
    first frame is taken, transparency is dropped. Those of data sets stay as they are stored, as in the published
    features; a phone stores them lying on their side.
    """
    from PIL import UnidentifiedImageError

    content = _content(photo, name)
    if not content:
        raise DataError(f"{name}: the file is empty; save or copy it again")
    try:
        picture = decode_rgb(content, name)
        large = picture.width * picture.height > MOST_PIXELS
        return _upright(picture.reduce(2) if large else picture, name)
    except BrokenPicture as error:
        if isinstance(error.__cause__, UnidentifiedImageError):
            kinds = ", ".join(FORMATS)
            raise DataError(f"{name}: no picture that is read here ({kinds}); save it as one of these") from error
        raise DataError(f"{name}: {error}; save or copy it again") from error


def _content(photo: Photo, name: str) -> bytes:
    """Return the bytes of a picture's file; what is in memory becomes one without loss."""
    from PIL import Image

    if isinstance(photo, bytes):
        _check_size(len(photo), name)
        return photo
    if isinstance(photo, np.ndarray):
        photo = _of_array(photo, name)
    if isinstance(photo, Image.Image):
        file = io.BytesIO()
        # TIFF has a place for every mode but those of a palette with transparency, for which PNG has.
        photo.save(file, "PNG" if photo.mode in ("P", "PA", "LA") else "TIFF", exif=photo.getexif())
        return file.getvalue()
    if not isinstance(photo, str | Path):
        raise DataError(
            f"{name}: a {type(photo).__name__} is no photo; give a path, bytes, a picture of Pillow or an array"
        )
    try:
        return bounded(partial(_file_content, Path(photo)), _READ_SECONDS)
    except TimeoutError as error:
        raise DataError(
            f"{name}: reading it does not end; it was given up after {_READ_SECONDS} seconds: copy it to a local disk"
        ) from error


def _file_content(path: Path) -> bytes:
    if not path.exists():
        raise MissingData(f"{path}: no such file; correct its path")
    if not path.is_file():
        raise DataError(f"{path}: not a file; name a picture")
    try:
        size = path.stat().st_size
        _check_size(size, str(path))
        # Files of the kernel say 0 bytes, and reading one may wait for ever.
        return path.read_bytes() if size else b""
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); name a file that you may read") from error


def _check_size(size: int, name: str) -> None:
    if size > MAX_BYTES:
        raise DataError(f"{name}: has {size / 2**20:,.0f} MiB, more than {MAX_BYTES // 2**20}; scale it down")


def _of_array(values: np.ndarray, name: str) -> Image:
    """Return an array as a picture; what its numbers mean must be certain."""
    from PIL import Image

    eight = values.dtype == np.uint8 and (values.ndim == 2 or (values.ndim == 3 and values.shape[2] in _CHANNELS))
    if not (eight or (values.dtype == np.uint16 and values.ndim == 2)) or 0 in values.shape:
        raise DataError(
            f"{name}: an array {values.dtype} {list(values.shape)} is no photo; give uint8 [height, width, 3] or "
            "[height, width], or uint16 [height, width]"
        )
    return Image.fromarray(np.ascontiguousarray(values))


def _upright(picture: Image, name: str) -> Image:
    """Return a picture turned as its EXIF data say."""
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(picture)
    except Exception as error:  # Pillow lets out whatever its parser meets in damaged data
        log.warning(f"{name}: its EXIF data are damaged ({first_line(error)}); it is taken as it is stored")
        return picture


class PicturesInMemory(ImageSource):
    """Pictures by name, for what reads them out of folders and zips otherwise."""

    def __init__(self, pictures: dict[str, Image]) -> None:
        super().__init__([])
        self._pictures = pictures

    def open_rgb(self, file: str) -> Image:
        """Return a picture."""
        return self._pictures[file]


@dataclass
class FoundPhotos:
    """The files behind the words of a command line.

    Attributes:
        files: in the order of the words, those of folders and patterns by name, each once.
        left_out: what is in the folders and no picture by its name: hidden files, others, folders.
    """

    files: list[Path] = field(default_factory=list)
    left_out: int = 0


def find_photos(words: Iterable[str | Path]) -> FoundPhotos:
    """Return the photos that files, folders and patterns name.

    A folder stands for the pictures directly in it; `**` in a pattern reaches folders below. A word that names nothing
    is kept as a file, so that whoever reads it says so.
    """
    found = FoundPhotos()
    for word in map(str, words):
        path = Path(word)
        if path.is_dir():
            _add_folder(path, found)
        elif not path.exists() and any(char in word for char in _WILD):
            matches = sorted(glob(word, recursive=True))  # noqa: PTH207 - Path.glob wants the folder apart
            found.files += [Path(match) for match in matches if Path(match).is_file()] or [path]
        else:
            found.files.append(path)
    found.files = list(dict.fromkeys(found.files))
    return found


def _add_folder(folder: Path, found: FoundPhotos) -> None:
    endings = _endings()
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.suffix.lower() not in endings or not path.is_file():
            found.left_out += 1
        else:
            found.files.append(path)


def _endings() -> frozenset[str]:
    """Return the endings of files of FORMATS."""
    from PIL import Image

    return frozenset(ending for ending, form in Image.registered_extensions().items() if form in FORMATS)
