"""Unpacks untrusted zip and tgz files: members that are chosen, each whole, continued after any interruption."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from recap.core.documents import read_json, write_json
from recap.core.errors import DataError, MissingData
from recap.core.files import exclusive, writing
from recap.core.log import progress
from recap.core.process import limited_memory
from recap.data.files.member_names import Chosen, MemberNames
from recap.data.files.members import DAMAGED, damage

CHUNK = 2**20
# Pictures hardly shrink and XML shrinks tenfold; what grows more than this is made to fill a disk.
LARGEST_GROWTH = 100
ALWAYS_ALLOWED = 2**30


@dataclass(frozen=True)
class Member:
    """One file of an archive: its name as written there, the bytes it declares, and how to open it."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]


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
        places = _unpack(archive, folder, into, Chosen(members), limit)
        # One flush for all files: a file that has its place has its bytes on the disk.
        os.sync()
        _move(folder, into, places)
    return len(places)


def check_names(archive: Path) -> None:
    """Read the names in a zip, tar or tgz to the end."""
    for _ in _members(archive):
        pass


@contextmanager
def _private_folder(into: Path, archive: Path) -> Iterator[Path]:
    """Yield a folder beside the one to fill, held by one process at a time; what came of the same archive is in it.

    What is refused leaves nothing; a kill, Ctrl-C and the disk leave what has been unpacked.
    """
    place = into.with_name(f".{into.name}.part")
    folder, mark = place / "files", place / "archive.json"
    place.mkdir(parents=True, exist_ok=True)
    with exclusive(place / "lock", wait_seconds=0, what=f"the folder {into} to unpack into"):
        found = archive.stat()
        about = {"archive": archive.name, "bytes": found.st_size, "changed_ns": found.st_mtime_ns}
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


def _move(folder: Path, into: Path, places: list[str]) -> None:
    """Move files to their places: the folder as a whole where nothing is in the way, else file by file."""
    if not into.exists() or (into.is_dir() and not any(into.iterdir())):
        folder.replace(into)
        return
    for place in places:
        if (folder / place).exists():
            (into / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).replace(into / place)


def _unpack(archive: Path, folder: Path, into: Path, chosen: Chosen, limit: int) -> list[str]:
    """Write every chosen member that is nowhere yet below ``folder``; return the places of all."""
    total, places = 0, []
    try:
        for member in progress(_members(archive), name=f"unpack {archive.name}", unit="files"):
            place = chosen.place(member.name)
            if place is None:
                continue
            total += member.size
            if total > limit:
                raise DataError(
                    f"{archive}: unpacks to more than {limit / 2**30:.3g} GiB; if that is right, raise the limit with "
                    "--limit-gb"
                )
            places.append(place)
            if not _is_there(into / place, member, archive):
                _write(member, folder / place, archive)
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            raise DataError(f"{archive}: its paths are too long below {into}; unpack into a shorter path") from error
        if isinstance(error, OSError) and error.errno is not None:
            raise  # what the disk refuses is no fault of the archive
        raise damage(archive, error) from error
    if not places:
        raise DataError(f"{archive}: holds no file {chosen.members!r}; fetch it again, or correct the glob")
    return places


def _is_there(path: Path, member: Member, archive: Path) -> bool:
    if not path.exists():
        return False
    if not path.is_file() or path.stat().st_size != member.size:
        raise DataError(f"{path}: is not {member.name!r} of {archive}, which is to be there; move it away")
    return True


def _write(member: Member, path: Path, archive: Path) -> None:
    """Write a member, unless an interrupted unpacking has written all its bytes."""
    if path.is_file() and path.stat().st_size == member.size:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with member.open() as stream, path.open("wb") as out:
        while content := stream.read(CHUNK):
            written += len(content)
            if written > member.size:
                raise DataError(f"{archive}: {member.name!r} unpacks to more than it declares; do not use this archive")
            out.write(content)
    if written != member.size:
        raise EOFError(f"{member.name!r} ends early")


def _members(archive: Path) -> Iterator[Member]:
    """Yield the files of an archive; folders are made as files need them."""
    yield from _zip_members(archive) if zipfile.is_zipfile(archive) else _tar_members(archive)


def _zip_members(archive: Path) -> Iterator[Member]:
    """Check all names of a zip, then yield its files."""
    with zipfile.ZipFile(archive) as opened:
        names = MemberNames(archive)
        for entry in opened.infolist():
            # An entry written on a system without Unix modes has 0 here.
            kind = stat.S_IFMT(entry.external_attr >> 16)
            names.check(entry.orig_filename, regular=kind in (0, stat.S_IFREG, stat.S_IFDIR), folder=entry.is_dir())
        for entry in opened.infolist():
            if not entry.is_dir():
                yield Member(entry.filename, entry.file_size, partial(opened.open, entry))


def _tar_members(archive: Path) -> Iterator[Member]:
    """Yield the files of a tar or tgz in one pass, so that nothing is unpacked twice."""
    with archive.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    # tarfile's own stream of a gzip does not look at the check sum; gzip does, at its end.
    with (
        gzip.open(archive) if packed else archive.open("rb") as stream,
        tarfile.open(fileobj=stream, mode="r|") as opened,
    ):
        names = MemberNames(archive)
        for entry in opened:
            names.check(entry.name, regular=entry.isfile() or entry.isdir(), folder=entry.isdir())
            if entry.isfile():
                yield Member(entry.name, entry.size, partial(_content, opened, entry))
        while stream.read(CHUNK):
            pass


def _content(opened: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    content = opened.extractfile(entry)
    assert content is not None  # it is of a regular file
    return content
