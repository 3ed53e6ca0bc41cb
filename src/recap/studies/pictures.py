"""Pictures as raters see them: scaled down, JPEG, with names and metadata that say nothing."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from pathlib import Path

from recap.core.errors import DamagedData
from recap.core.files import atomic_path
from recap.data.files.archives import DAMAGED
from recap.data.files.images import ImageSource

_MAX_BYTES = 2**26  # of one picture
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # of a zip; equal pictures give equal bytes
_READABLE = 0o100644  # a file that all may read


def picture_bytes(source: ImageSource, file: str, pixels: int) -> bytes:
    """Return a picture as JPEG, its longer side ``pixels`` at most, without metadata."""
    from PIL import Image

    picture = source.open_rgb(file)
    picture.thumbnail((pixels, pixels), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=85, optimize=True)
    return buffer.getvalue()


def write_zip(path: Path, members: Iterable[tuple[str, bytes]]) -> None:
    """Write a zip; equal members give equal bytes."""
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name, _EARLIEST)
            info.external_attr = _READABLE << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)


def read_pictures(path: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Return the pictures of ``pictures.zip`` by name."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [archive.getinfo(name) for name in names]
            largest = max((entry.file_size for entry in entries), default=0)
            if largest > _MAX_BYTES:
                raise ValueError(f"a picture unpacks to {largest} bytes")
            return {entry.filename: archive.read(entry) for entry in entries}
    except DAMAGED as error:
        raise DamagedData(f"{path}: cannot be read ({error}); rebuild it with `recap study sheets`") from error
