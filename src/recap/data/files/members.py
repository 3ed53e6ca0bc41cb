"""The files inside a folder, a zip or a tgz, one after the other; nothing is written, so no name can lead astray."""

from __future__ import annotations

import gzip
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from recap.core.errors import DataError, MissingData
from recap.core.process import cause

# What the standard library raises for archives that are damaged or packed in a way it does not know.
DAMAGED = (
    *(OSError, EOFError, MemoryError, ValueError, LookupError, OverflowError, NotImplementedError, RuntimeError),
    *(zlib.error, lzma.LZMAError, struct.error, tarfile.TarError, zipfile.BadZipFile),
)

Wanted = Callable[[str], bool]


def members(path: Path, *, wanted: Wanted, max_bytes: int) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every regular file that is wanted; links and devices are passed over.

    A tgz is read once from start to end, which is the only way it can be read; memory holds one file at a time.
    """
    if not path.exists():
        raise MissingData(f"{path}: no such folder or archive; correct its path or the inputs folder")
    try:
        yield from _reader(path)(path, wanted, max_bytes)
    except DAMAGED as error:
        raise damage(path, error) from error


def damage(path: Path, error: Exception) -> DataError:
    """Return the sentence about an archive that raised one of DAMAGED."""
    reason = cause(error)
    if isinstance(error, NotImplementedError):
        return DataError(f"{path}: packed in a way that is not supported ({reason}); pack its files again as a zip")
    if isinstance(error, RuntimeError) and "encrypted" in reason:
        return DataError(f"{path}: {reason}; unpack it by hand with its password")
    return DataError(f"{path}: truncated or damaged ({reason}); fetch it again")


def stem(name: str) -> str:
    """Return the base name of a file without its last suffix: ``a/CXR1_IM-0001.png`` -> ``CXR1_IM-0001``."""
    return PurePosixPath(name).stem


def _reader(path: Path) -> Callable[[Path, Wanted, int], Iterator[tuple[str, bytes]]]:
    if path.is_dir():
        return _folder
    if zipfile.is_zipfile(path):
        return _zip
    with path.open("rb") as file:
        if file.read(2) == b"\x1f\x8b":
            return _tgz
    raise DataError(f"{path}: neither a folder nor a whole zip or tgz; fetch it again")


def _folder(path: Path, wanted: Wanted, max_bytes: int) -> Iterator[tuple[str, bytes]]:
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path).as_posix()
        if wanted(name) and file.is_file():
            _check_size(path, name, file.stat().st_size, max_bytes)
            yield name, file.read_bytes()


def _zip(path: Path, wanted: Wanted, max_bytes: int) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if not entry.is_dir() and wanted(entry.filename):
                _check_size(path, entry.filename, entry.file_size, max_bytes)
                yield entry.filename, archive.read(entry)


def _tgz(path: Path, wanted: Wanted, max_bytes: int) -> Iterator[tuple[str, bytes]]:
    with gzip.open(path) as unpacked:
        with tarfile.open(fileobj=unpacked, mode="r|") as archive:
            for entry in archive:
                if entry.isreg() and wanted(entry.name):
                    _check_size(path, entry.name, entry.size, max_bytes)
                    content = archive.extractfile(entry)
                    yield entry.name, content.read() if content else b""
        # tarfile takes an end between two files for the end; only gzip's own end tells that nothing is missing.
        while unpacked.read(2**20):
            pass


def _check_size(path: Path, name: str, size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise DataError(f"{path}: {name} unpacks to {size} bytes, more than {max_bytes}; is this the right archive?")
