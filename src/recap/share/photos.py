"""Photos as given (files, bytes, Pillow's, arrays), each as an upright RGB picture."""

from __future__ import annotations

import io
from collections.abc import Iterable
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np

from recap.core.errors import DataError
from recap.core.files import reading
from recap.data.files.images import FORMATS, MAX_BYTES, BrokenPicture, decode_rgb, turned

if TYPE_CHECKING:
    from PIL.Image import Image

# A file, or its bytes; a picture of Pillow; an array uint8 [height, width] or [height, width, 3 or
# 4], or uint16 [height, width].
Photo: TypeAlias = Union[str, Path, bytes, "Image", np.ndarray]

# larger photos are halved, so that a batch fits into memory; no extractor sees so many
MOST_PIXELS = 50_000_000


def find_photos(words: Iterable[str | Path]) -> tuple[list[Path], int]:
    """Return the photos that files, folders (those directly in it) and patterns name, each once.

    A word that names nothing stays a file, so that whoever reads it says so. The number is of those
    entries of folders that are no pictures by name.
    """
    from PIL import Image

    endings = {ending for ending, form in Image.registered_extensions().items() if form in FORMATS}
    files: list[Path] = []
    left_out = 0
    for word in map(str, words):
        path = Path(word)
        if path.is_dir():
            for entry in sorted(path.iterdir()):
                hidden = entry.name.startswith(".")
                if entry.suffix.lower() in endings and not hidden and entry.is_file():
                    files.append(entry)
                else:
                    left_out += 1
        elif not path.exists() and any(char in word for char in "*?["):
            matches = sorted(glob(word, recursive=True))  # noqa: PTH207 - Path.glob wants the folder apart
            files += [Path(match) for match in matches if Path(match).is_file()] or [path]
        else:
            files.append(path)
    return list(dict.fromkeys(files)), left_out


def name_of(photo: Photo, number: int) -> str:
    """Return what a photo is called in results and errors:
    its path, or its number among those given, from 1."""
    if isinstance(photo, str | Path):
        return str(photo)
    if isinstance(photo, np.ndarray):
        return f"array {number}"
    if isinstance(photo, bytes):
        return f"photo {number}"
    return str(getattr(photo, "filename", "")) or f"picture {number}"


def read_photo(photo: Photo, name: str) -> Image:
    """Return a photo as an upright RGB picture, decoded as the pictures of data sets are."""
    content = _content(photo, name)
    if not content:
        raise DataError(f"{name}: the file is empty; save or copy it again")
    try:
        picture = decode_rgb(content, name)
    except BrokenPicture as error:
        kinds = ", ".join(FORMATS)
        raise DataError(f"{name}: {error}; save or copy it again, as one of {kinds}") from error
    if picture.width * picture.height > MOST_PIXELS:
        picture = picture.reduce(2)
    return turned(picture, name) or picture


def _content(photo: Photo, name: str) -> bytes:
    """Return the bytes of a picture's file; what is in memory becomes one without loss."""
    from PIL import Image

    if isinstance(photo, str | Path):
        return _file_content(Path(photo))
    if isinstance(photo, bytes):
        return photo
    what = type(photo).__name__
    if isinstance(photo, np.ndarray):
        what = f"{what} {photo.dtype} {list(photo.shape)}"
        gray = photo.ndim == 2 and photo.dtype in (np.uint8, np.uint16)
        color = photo.ndim == 3 and photo.dtype == np.uint8 and photo.shape[2] in (3, 4)
        if photo.size and (gray or color):  # what its numbers mean must be certain
            photo = Image.fromarray(np.ascontiguousarray(photo))
    if not isinstance(photo, Image.Image):
        raise DataError(
            f"{name}: {what} is no photo; give a path, bytes, a picture of Pillow, or an array "
            "uint8 [height, width, 3] or [height, width], or uint16 [height, width]"
        )
    file = io.BytesIO()
    # TIFF has a place for every mode but those of a palette with transparency, for which PNG has.
    photo.save(file, "PNG" if photo.mode in ("P", "PA", "LA") else "TIFF", exif=photo.getexif())
    return file.getvalue()


def _file_content(path: Path) -> bytes:
    with reading(path, DataError, missing="name a picture"):
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise DataError(
                f"{path}: has {size / 2**20:,.0f} MiB, more than {MAX_BYTES // 2**20}; scale it "
                "down"
            )
        # Files of the kernel say 0 bytes, and reading one may wait for ever.
        return path.read_bytes() if size else b""
