"""Untrusted archives: their files one after the other, read or unpacked, each whole, continued after interruptions."""

from __future__ import annotations

import errno
import gzip
import lzma
import os
import shutil
import stat
import struct
import tarfile
import traceback
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from recap.core.documents import read_json, write_json
from recap.core.errors import DataError, MissingData
from recap.core.files import exclusive, writing
from recap.core.log import progress
from recap.core.process import cause, limited_memory

# What the standard library raises for archives that are damaged or packed in a way it does not know.
DAMAGED = (
    *(OSError, EOFError, MemoryError, ValueError, LookupError, OverflowError, NotImplementedError, RuntimeError),
    *(zlib.error, lzma.LZMAError, struct.error, tarfile.TarError, zipfile.BadZipFile),
)
CHUNK = 2**20
# Pictures hardly shrink and XML shrinks tenfold; what grows more than this is made to fill a disk.
LARGEST_GROWTH = 100
ALWAYS_ALLOWED = 2**30
_LONGEST = 255  # bytes of one name on the usual file systems
# Control characters end lines and steer terminals, invisible ones make two names look alike, half a pair is no text.
_REFUSED = ("Cc", "Cf", "Cs", "Zl", "Zp")


class Member(NamedTuple):
    """One file of an archive: its name as written there, the bytes it declares, and how to open it."""

    name: str
    size: int
    open: Callable[[], Any]  # a binary stream


def members(path: Path, names: MemberNames | None = None) -> Iterator[Member]:
    """Yield the regular files of a folder, zip, tar or tgz; with ``names``, what is not to be unpacked is refused."""
    if not path.exists():
        raise MissingData(f"{path}: no such folder or archive; fetch it, or correct its path or the inputs folder")
    if path.is_dir():
        for file in filter(Path.is_file, sorted(path.rglob("*"))):
            yield Member(file.relative_to(path).as_posix(), file.stat().st_size, partial(file.open, "rb"))
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if names:
                for entry in archive.infolist():
                    # An entry written on a system without Unix modes has 0 here.
                    regular = stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR)
                    names.check(entry.orig_filename, regular=regular, folder=entry.is_dir())
            for entry in archive.infolist():
                if not entry.is_dir():
                    yield Member(entry.filename, entry.file_size, partial(archive.open, entry))
    else:
        with path.open("rb") as start:
            packed = start.read(2) == b"\x1f\x8b"
        # tarfile's own stream of a gzip does not look at the check sum; gzip does, at its end.
        with gzip.open(path) if packed else path.open("rb") as stream:
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                for info in tar:
                    if names:
                        names.check(info.name, regular=info.isfile() or info.isdir(), folder=info.isdir())
                    if info.isfile():
                        yield Member(info.name, info.size, partial(tar.extractfile, info))
            # tarfile takes an end between two files for the end; only gzip's own end tells that nothing is missing.
            while stream.read(CHUNK):
                pass


def contents(path: Path, *, wanted: Callable[[str], bool], max_bytes: int) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file that is wanted of a folder or archive; memory holds one at a time."""
    try:
        for member in members(path):
            if not wanted(member.name):
                continue
            if member.size > max_bytes:
                raise DataError(
                    f"{path}: {member.name} unpacks to {member.size} bytes, more than {max_bytes}; is this the right "
                    "archive?"
                )
            with member.open() as stream:
                yield member.name, stream.read()
    except DAMAGED as error:
        raise damage(path, error) from error


def damage(path: Path, error: Exception) -> DataError:
    """Return the sentence about an archive that raised one of DAMAGED."""
    reason = cause(error)
    # What filled the memory is still held by the library's frames, and removing a folder needs some.
    traceback.clear_frames(error.__traceback__)
    if isinstance(error, NotImplementedError):
        return DataError(f"{path}: packed in a way that is not supported ({reason}); pack its files again as a zip")
    if isinstance(error, RuntimeError) and "encrypted" in reason:
        return DataError(f"{path}: {reason}; unpack it by hand with its password")
    return DataError(f"{path}: truncated or damaged ({reason}); fetch it again")


@limited_memory()
def unpack(archive: Path, *, into: Path, members: str = "*", limit: int | None = None) -> int:
    """Unpack members of a zip, tar or tgz below a folder, and return how many there are.

    They are written to a hidden folder beside it, and get their places when the whole archive has been read. What a
    kill or a full disk leaves there, the next unpacking goes on from. A file that has its place already is kept.
    By default they may have 1 GiB together, or 100 times the archive if that is more.
    """
    if not archive.is_file():
        raise MissingData(f"{archive}: no such archive; fetch it first")
    limit = max(ALWAYS_ALLOWED, LARGEST_GROWTH * archive.stat().st_size) if limit is None else limit
    with writing(into), _private_folder(into, archive) as folder:
        places = _unpack(archive, folder, into, members, limit)
        # One flush for all files: a file that has its place has its bytes on the disk.
        os.sync()
        if not into.exists() or (into.is_dir() and not any(into.iterdir())):
            folder.replace(into)
        else:
            for place in filter(lambda place: (folder / place).exists(), places):
                (into / place).parent.mkdir(parents=True, exist_ok=True)
                (folder / place).replace(into / place)
    return len(places)


@contextmanager
def _private_folder(into: Path, archive: Path) -> Iterator[Path]:
    """Yield a folder beside the one to fill, held by one process at a time; what came of the same archive is in it.

    What is refused leaves nothing; a kill, Ctrl-C and the disk leave what has been unpacked.
    """
    place = into.with_name(f".{into.name}.part")
    folder, mark = place / "files", place / "archive.json"
    place.mkdir(parents=True, exist_ok=True)
    with exclusive(place / "lock", wait_seconds=0, what=f"the folder {into} to unpack into"):
        status = archive.stat()
        about = {"archive": archive.name, "bytes": status.st_size, "changed_ns": status.st_mtime_ns}
        if not mark.is_file() or read_json(mark) != about:
            shutil.rmtree(folder, ignore_errors=True)
            write_json(mark, about)
        folder.mkdir(exist_ok=True)
        try:
            yield folder
        except DataError:
            shutil.rmtree(place)
            raise
        shutil.rmtree(place)


def _unpack(archive: Path, folder: Path, into: Path, pattern: str, limit: int) -> list[str]:
    """Write every member that fits and is nowhere yet below ``folder``; return the places of all.

    A `*` stands for folders, too, and leading folders without one are left out: `trainval/*.tsv` writes
    `trainval/a.tsv` to `a.tsv`.
    """
    fixed = PurePosixPath(*takewhile(lambda part: not set("*?[") & set(part), PurePosixPath(pattern).parent.parts))
    total, places = 0, []
    try:
        for member in progress(members(archive, MemberNames(archive)), name=f"unpack {archive.name}", unit="files"):
            name = PurePosixPath(member.name)
            if not fnmatchcase(str(name), pattern):
                continue
            total += member.size
            if total > limit:
                raise DataError(
                    f"{archive}: unpacks to more than {limit / 2**30:.3g} GiB; if that is right, raise the limit with "
                    "--limit-gb"
                )
            places.append(str(name.relative_to(fixed)))
            path, there = folder / places[-1], into / places[-1]
            if there.exists():
                if not there.is_file() or there.stat().st_size != member.size:
                    raise DataError(f"{there}: is not {member.name!r} of {archive}, which is to be there; move it away")
            elif not (path.is_file() and path.stat().st_size == member.size):  # else an interrupted unpacking wrote it
                path.parent.mkdir(parents=True, exist_ok=True)
                _write(member, path, archive)
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            raise DataError(f"{archive}: its paths are too long below {into}; unpack into a shorter path") from error
        if isinstance(error, OSError) and error.errno is not None:
            raise  # what the disk refuses is no fault of the archive
        raise damage(archive, error) from error
    if not places:
        raise DataError(f"{archive}: holds no file {pattern!r}; fetch it again, or correct the glob")
    return places


def _write(member: Member, path: Path, archive: Path) -> None:
    written = 0
    with member.open() as stream, path.open("wb") as out:
        while content := stream.read(CHUNK):
            written += len(content)
            if written > member.size:
                raise DataError(f"{archive}: {member.name!r} unpacks to more than it declares; do not use this archive")
            out.write(content)
    if written != member.size:
        raise EOFError(f"{member.name!r} ends early")


class MemberNames:
    """The names seen so far in one archive.

    What is unpacked must not depend on the disk. Two names that are one on disks that ignore case, or that normalize
    Unicode, are therefore refused everywhere: there the second file would take the place of the first.
    """

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._files: dict[str, str] = {}
        self._folders: set[str] = set()

    def check(self, name: str, *, regular: bool, folder: bool) -> None:
        """Take note of the next name."""
        path = PurePosixPath(name)
        drive = len(name) > 1 and name[1] == ":"
        unprintable = any(unicodedata.category(character) in _REFUSED for character in name)
        if not name or path.is_absolute() or ".." in path.parts or "\\" in name or unprintable or drive:
            raise self._refusal(f"holds the unsafe name {name!r}")
        if any(len(part.encode()) > _LONGEST for part in path.parts):
            raise DataError(
                f"{self._archive}: the name {name!r} is too long for most disks ({_LONGEST} bytes); unpack it by hand"
            )
        if not regular:
            raise self._refusal(f"{name!r} is a link or a device")
        key = unicodedata.normalize("NFD", unicodedata.normalize("NFD", str(path)).casefold())
        parents = {str(parent) for parent in PurePosixPath(key).parents}
        if parents & self._files.keys() or (key in self._files if folder else key in self._folders):
            raise self._refusal(f"{str(path)!r} needs a folder where a file has the same name")
        self._folders |= {key, *parents} if folder else parents
        if not folder and key in self._files:
            twin = self._files[key]
            raise self._refusal(
                f"holds {twin!r} twice"
                if twin == str(path)
                else f"{twin!r} and {str(path)!r} are one file on disks that ignore case or forms of Unicode"
            )
        if not folder:
            self._files[key] = str(path)

    def _refusal(self, what: str) -> DataError:
        return DataError(f"{self._archive}: {what}; do not use this archive")
