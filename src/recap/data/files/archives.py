"""Unpacks untrusted zip and tgz files: everything into the folder, or nothing."""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from recap.core.errors import DataError
from recap.core.files.atomic import naming_full_disk
from recap.core.files.json_files import read_json, write_json
from recap.core.hashing import sha256_file
from recap.core.log import log
from recap.core.progress import progress
from recap.data.files.members import DAMAGED

MARK = ".extracted.json"
CHUNK = 2**20
# Pictures hardly shrink and XML shrinks tenfold; what grows more than this is made to fill a disk.
LARGEST_GROWTH = 100
ALWAYS_ALLOWED = 2**30
# What the disk refuses is no fault of the archive.
_OURS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


@dataclass(frozen=True)
class Member:
    """One file of an archive: its name as written there, the bytes it declares, and how to read it."""

    name: str
    size: int
    stream: IO[bytes]


def extract_archive(archive: Path, *, into: Path, limit: int | None = None) -> int:
    """Unpack a zip, tar or tgz into a folder that appears when it is whole, and return the number of files.

    A killed extraction leaves a hidden folder that the next one empties; a folder that was made from the same archive
    is left as it is.

    Args:
        archive: the archive.
        into: the folder to make.
        limit: most bytes that the files may have together; by default 1 GiB, or 100 times the archive if that is more.

    Raises:
        DataError: the archive is truncated, holds an unsafe name, a link, a device or a name twice, or unpacks to more
            than the limit; or the folder is there already and holds something else.
    """
    if not archive.is_file():
        raise DataError(f"{archive}: no such archive; fetch it first")
    source = sha256_file(archive)
    if into.exists():
        return _already(archive, into, source)
    limit = max(ALWAYS_ALLOWED, LARGEST_GROWTH * archive.stat().st_size) if limit is None else limit
    with _private_folder(into) as folder, naming_full_disk(into):
        count = _unpack(archive, folder, limit)
        write_json(folder / MARK, {"archive": archive.name, "sha256": source, "files": count})
        # One flush for all files: a folder that has its name has its bytes on the disk.
        os.sync()
        folder.replace(into)
    return count


def _already(archive: Path, into: Path, source: str) -> int:
    made = read_json(into / MARK) if (into / MARK).is_file() else None
    if not isinstance(made, dict) or made.get("sha256") != source:
        raise DataError(f"{into}: is there already and was not made from {archive}; remove it or name another folder")
    log.info(f"{into}: already unpacked from {archive}")
    return int(made["files"])


@contextmanager
def _private_folder(into: Path) -> Iterator[Path]:
    """Yield an empty hidden folder beside the one to make, held by one process at a time."""
    folder = into.with_name(f".{into.name}.part")
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = folder.exists() and os.fstat(handle).st_ino == folder.stat().st_ino
        except BlockingIOError:
            mine = False
        if not mine:
            raise DataError(f"{into}: another process is unpacking into it; wait for that one, then run this again")
        try:
            _empty(folder)
            yield folder
        finally:
            if not into.exists():
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(handle)


def _empty(folder: Path) -> None:
    for left in folder.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()


def _unpack(archive: Path, folder: Path, limit: int) -> int:
    """Write every file of an archive below ``folder``; what is declared and what really comes are both counted."""
    declared = total = count = 0
    try:
        for member in progress(_members(archive, limit), name=f"unpack {archive.name}", unit="files"):
            declared += member.size
            if declared > limit:
                raise _too_large(archive, limit)
            target = folder / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as out:
                written = _copy(member, out, archive)
            total += written
            count += 1
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno in _OURS:
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{archive}: truncated or damaged ({reason}); fetch it again") from error
    if not count:
        raise DataError(f"{archive}: holds no files; fetch it again")
    return count


def _copy(member: Member, out: IO[bytes], archive: Path) -> int:
    written = 0
    while content := member.stream.read(CHUNK):
        written += len(content)
        if written > member.size:
            raise DataError(f"{archive}: {member.name!r} unpacks to more than it declares; fetch the archive again")
        out.write(content)
    if written != member.size:
        raise EOFError(f"{member.name!r} ends early")
    return written


def _members(archive: Path, limit: int) -> Iterator[Member]:
    """Yield the files of an archive; folders are made as files need them."""
    if zipfile.is_zipfile(archive):
        yield from _zip_members(archive, limit)
    else:
        yield from _tar_members(archive)


def _zip_members(archive: Path, limit: int) -> Iterator[Member]:
    """Check all names and the declared total of a zip, then yield its files."""
    with zipfile.ZipFile(archive) as opened:
        entries = [entry for entry in opened.infolist() if not entry.is_dir()]
        names = _Names(archive)
        for entry in opened.infolist():
            # An entry written on a system without Unix modes has 0 here.
            kind = stat.S_IFMT(entry.external_attr >> 16)
            names.check(entry.orig_filename, regular=kind in (0, stat.S_IFREG, stat.S_IFDIR), folder=entry.is_dir())
        if sum(entry.file_size for entry in entries) > limit:
            raise _too_large(archive, limit)
        for entry in entries:
            with opened.open(entry) as stream:
                yield Member(entry.filename, entry.file_size, stream)


def _tar_members(archive: Path) -> Iterator[Member]:
    """Yield the files of a tar or tgz in one pass, so that nothing is unpacked twice."""
    with archive.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    # tarfile's own stream of a gzip does not look at the check sum; gzip does, at its end.
    with (
        gzip.open(archive) if packed else archive.open("rb") as stream,
        tarfile.open(fileobj=stream, mode="r|") as opened,
    ):
        names = _Names(archive)
        for entry in opened:
            names.check(entry.name, regular=entry.isfile() or entry.isdir(), folder=entry.isdir())
            content = opened.extractfile(entry) if entry.isfile() else None
            if content is not None:
                yield Member(entry.name, entry.size, content)
        while stream.read(CHUNK):
            pass


class _Names:
    """The names seen so far in one archive."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._files: set[str] = set()

    def check(self, name: str, *, regular: bool, folder: bool) -> None:
        """Refuse a name that leaves the folder, a link or device, and a file that is duplicated."""
        path = PurePosixPath(name)
        drive = len(name) > 1 and name[1] == ":"
        if not name or path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or drive:
            raise DataError(f"{self._archive}: holds the unsafe name {name!r}; do not use this archive")
        if not regular:
            raise DataError(f"{self._archive}: {name!r} is a link or a device; do not use this archive")
        if folder:
            return
        if str(path) in self._files or str(path) == MARK:
            raise DataError(f"{self._archive}: holds {str(path)!r} twice; do not use this archive")
        self._files.add(str(path))


def _too_large(archive: Path, limit: int) -> DataError:
    return DataError(
        f"{archive}: unpacks to more than {limit / 2**30:.3g} GiB; if that is right, raise the limit with --limit-gb"
    )
