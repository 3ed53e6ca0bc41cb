"""Reads and unpacks untrusted archives file by file, and continues after interruptions."""

from __future__ import annotations

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
from fnmatch import fnmatchcase
from functools import partial
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from recap.core.documents import read_json, write_json
from recap.core.errors import DataError, MissingData
from recap.core.files import exclusive, reading, writing
from recap.core.log import progress
from recap.core.process import cause, limited_memory

# What the standard library raises for archives
# that are damaged or packed in a way it does not know.
DAMAGED = (
    OSError, EOFError, MemoryError, ValueError, LookupError, OverflowError, RuntimeError,
    zlib.error, lzma.LZMAError, struct.error, tarfile.TarError, zipfile.BadZipFile,
)  # fmt: skip
CHUNK = 2**20
# Pictures hardly shrink and XML shrinks tenfold; what grows more than this is made to fill a disk.
LARGEST_GROWTH = 100
ALWAYS_ALLOWED = 2**30
_LONGEST = 255  # bytes of one name on the usual file systems
_LONGEST_PATH = 2000  # characters of a path, half of what Linux takes with the folder before it
# Control characters end lines and steer terminals,
# invisible ones make two names look alike, half a pair is no text.
_REFUSED = ("Cc", "Cf", "Cs", "Zl", "Zp")


class Member(NamedTuple):
    """One file of an archive: its name there, the bytes it declares, and how to open it."""

    name: str
    size: int
    open: Callable[[], Any]  # a binary stream


def members(path: Path, names: MemberNames | None = None) -> Iterator[Member]:
    """Yield the regular files of a folder, zip, tar or tgz.

    With ``names``, what is not to be unpacked is refused.
    """
    if not path.exists():
        raise MissingData(
            f"{path}: no such folder or archive; fetch it, or correct its path or the inputs folder"
        )
    if path.is_dir():
        for file in filter(Path.is_file, sorted(path.rglob("*"))):
            yield Member(
                file.relative_to(path).as_posix(), file.stat().st_size, partial(file.open, "rb")
            )
    elif zipfile.is_zipfile(path):
        yield from _zip_members(path, names)
    else:
        yield from _tar_members(path, names)


def _zip_members(path: Path, names: MemberNames | None) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        if names:
            for entry in archive.infolist():
                # An entry written on a system without Unix modes has 0 here.
                regular = stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR)
                names.check(entry.orig_filename, regular=regular, folder=entry.is_dir())
        for entry in archive.infolist():
            if not entry.is_dir():
                yield Member(entry.filename, entry.file_size, partial(archive.open, entry))


def _tar_members(path: Path, names: MemberNames | None) -> Iterator[Member]:
    with path.open("rb") as start:
        packed = start.read(2) == b"\x1f\x8b"
    # tarfile's own stream of a gzip does not look at the check sum; gzip does, at its end.
    with gzip.open(path) if packed else path.open("rb") as stream:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for info in tar:
                if names:
                    regular = info.isfile() or info.isdir()
                    names.check(info.name, regular=regular, folder=info.isdir())
                if info.isfile():
                    yield Member(info.name, info.size, partial(tar.extractfile, info))
        # tarfile takes an end between two files for the end;
        # only gzip's own end tells that nothing is missing.
        while stream.read(CHUNK):
            pass


def contents(
    path: Path, *, wanted: Callable[[str], bool], max_bytes: int
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file that is wanted of a folder or archive.

    Memory holds one at a time.
    """
    try:
        for member in members(path):
            if not wanted(member.name):
                continue
            if member.size > max_bytes:
                raise DataError(
                    f"{path}: {member.name} unpacks to {member.size} bytes, more than {max_bytes}; "
                    "is this the right archive?"
                )
            with member.open() as stream:
                yield member.name, stream.read()
    except DAMAGED as error:
        raise damage(path, error) from error


def damage(path: Path, error: Exception) -> DataError:
    """Return the sentence about an archive that raised one of DAMAGED."""
    reason = cause(error)
    # What filled the memory is still held by the library's frames,
    # and removing a folder needs some.
    traceback.clear_frames(error.__traceback__)
    if isinstance(error, NotImplementedError):
        return DataError(
            f"{path}: packed in a way that is not supported ({reason}); pack its files again as a "
            "zip"
        )
    if isinstance(error, RuntimeError) and "encrypted" in reason:
        return DataError(f"{path}: {reason}; unpack it by hand with its password")
    return DataError(f"{path}: truncated or damaged ({reason}); fetch it again")


@limited_memory()
def unpack(archive: Path, *, into: Path, members: str = "*", limit: int | None = None) -> int:
    """Unpack members of a zip, tar or tgz below a folder, and return how many there are.

    They are written to a hidden folder beside it, and get their places when the whole archive has
    been read. The next unpacking of the same archive goes on from what a kill or a full disk leaves
    there. A file that has its place already is kept. By default they may have 1 GiB together, or
    100 times the archive if that is more.
    """
    with reading(archive, DataError, missing="fetch it first"):
        status = archive.stat()
    part = into.with_name(f".{into.name}.part")
    limit = max(ALWAYS_ALLOWED, LARGEST_GROWTH * status.st_size) if limit is None else limit
    about = {"archive": archive.name, "bytes": status.st_size, "changed_ns": status.st_mtime_ns}
    folder = part / "files"
    mark = part / "archive.json"
    with (
        writing(into),
        exclusive(part / "lock", wait_seconds=0, what=f"the folder {into} to unpack into"),
    ):
        if not mark.is_file() or read_json(mark) != about:
            shutil.rmtree(folder, ignore_errors=True)
            write_json(mark, about)
        folder.mkdir(exist_ok=True)
        try:
            places = _write_members(archive, folder, into, members, limit)
        except DataError:
            shutil.rmtree(part)
            raise
        os.sync()  # one flush for all files: a file that has its place has its bytes on the disk
        for place in filter(lambda place: (folder / place).exists(), places):
            (into / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).replace(into / place)
        shutil.rmtree(part)
    return len(places)


def _write_members(archive: Path, folder: Path, into: Path, pattern: str, limit: int) -> list[str]:
    """Write every member that fits and is nowhere yet below ``folder``; return all places."""
    total = 0
    places = []
    try:
        for member, place in _chosen(archive, pattern):
            total += member.size
            if total > limit:
                raise DataError(
                    f"{archive}: unpacks to more than {limit / 2**30:.3g} GiB; if that is right, "
                    "raise the limit with --limit-gb"
                )
            places.append(place)
            if not (into / place).exists():
                _write(member, folder / place, archive)
            elif not _is_whole(into / place, member):
                raise DataError(
                    f"{into / place}: is not {member.name!r} of {archive}, which is to be there; "
                    "move it away"
                )
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # what the disk refuses is no fault of the archive
        raise damage(archive, error) from error
    if not places:
        raise DataError(
            f"{archive}: holds no file {pattern!r}; fetch it again, or correct the glob"
        )
    return places


def _chosen(archive: Path, pattern: str) -> Iterator[tuple[Member, str]]:
    """Yield the members that a pattern names, each with its place.

    A `*` stands for folders, too, and leading folders without one are left out: `trainval/*.tsv`
    writes `trainval/a.tsv` to `a.tsv`.
    """
    folders = PurePosixPath(pattern).parent.parts
    fixed = PurePosixPath(*takewhile(lambda part: not set("*?[") & set(part), folders))
    every = members(archive, MemberNames(archive))
    for member in progress(every, name=f"unpack {archive.name}", unit="files"):
        name = PurePosixPath(member.name)
        if fnmatchcase(str(name), pattern):
            yield member, str(name.relative_to(fixed))


def _is_whole(path: Path, member: Member) -> bool:
    return path.is_file() and path.stat().st_size == member.size


def _write(member: Member, path: Path, archive: Path) -> None:
    """Write a member, unless an interrupted unpacking has written all of it."""
    if _is_whole(path, member):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with member.open() as stream, path.open("wb") as out:
        while out.tell() <= member.size and (content := stream.read(CHUNK)):
            out.write(content)
        if out.tell() != member.size:
            raise DataError(
                f"{archive}: {member.name!r} does not unpack to the {member.size} bytes that it "
                "declares; do not use this archive"
            )


class MemberNames:
    """The names seen so far in one archive.

    What is unpacked must not depend on the disk. Two names that are one on disks that ignore case,
    or that normalize Unicode, are therefore refused everywhere: there the second file would take
    the place of the first.
    """

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def check(self, name: str, *, regular: bool, folder: bool) -> None:
        """Take note of the next name."""
        path = PurePosixPath(name)
        if _is_unsafe(name):
            wrong = f"holds the unsafe name {name!r}"
        elif len(name) > _LONGEST_PATH or any(len(each.encode()) > _LONGEST for each in path.parts):
            wrong = f"the name {name!r} is longer than most disks allow ({_LONGEST} bytes)"
        elif not regular:
            wrong = f"{name!r} is a link or a device"
        elif self._is_taken(path, folder):
            wrong = (
                f"{name!r} and a member before it have the same place, at least on disks that "
                "ignore case"
            )
        else:
            return
        raise DataError(f"{self._archive}: {wrong}; do not use this archive")

    def _is_taken(self, path: PurePosixPath, folder: bool) -> bool:
        """Return whether a member before it has the place of this one, and note the place."""
        key = unicodedata.normalize("NFD", unicodedata.normalize("NFD", str(path)).casefold())
        parents = {str(parent) for parent in PurePosixPath(key).parents}
        taken = not self._files.isdisjoint({key, *parents})
        self._folders |= parents
        if folder:
            self._folders.add(key)
            return taken
        self._files.add(key)
        return taken or key in self._folders


def _is_unsafe(name: str) -> bool:
    """Return whether a name leads out of its folder, or is not plain text, on some system."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts:
        return True
    if "\\" in name or name[1:2] == ":":
        return True
    return any(unicodedata.category(character) in _REFUSED for character in name)
