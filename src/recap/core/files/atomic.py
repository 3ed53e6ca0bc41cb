"""Files that are either whole or absent: write beside, fsync, rename."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recap.core.files.disk import naming_full_disk
from recap.core.files.lock import taken


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``; on success it is synced and renamed, on failure removed.

    The temporary file of a killed write of the same file is removed first; that of a running one is kept.

    Raises:
        RecapError: the disk is full or read-only, or a folder is where the file should be or the reverse; also where a
            library raised another exception because of it.
    """
    path = Path(path)
    with naming_full_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent, re.escape(path.name))
        handle, temporary = _new_part(path)
    try:
        with naming_full_disk(path):
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
    finally:
        # If the disk became read-only, the temporary file remains; the next write removes it.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        os.close(handle)


def _new_part(path: Path) -> tuple[int, Path]:
    """Return a new file beside ``path`` and its handle, whose lock shows that the writer is running."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        if taken(handle) and Path(name).exists():
            return handle, Path(name)
        # Another writer removed it as a leftover before it was locked.
        os.close(handle)


def remove_leftovers(folder: Path, names: str) -> None:
    """Remove the temporary files of killed writes, and what a library wrote beside them; not those of a running one.

    Args:
        folder: of the files; it may be missing.
        names: regular expression for the names of the files that were to be written.
    """
    if not folder.is_dir():
        return
    temporary = re.compile(rf"(\.(?:{names})\.[a-z0-9_]{{8}}\.part)(?:-[a-z]+)?")
    with os.scandir(folder) as entries:
        found = [match for match in map(temporary.fullmatch, (entry.name for entry in entries)) if match]
    for match in found:
        with _claimed(folder / match[1]) as is_left:
            if is_left:
                (folder / match[0]).unlink(missing_ok=True)


def is_being_written(part: Path) -> bool:
    """Return whether the process that writes a temporary file is running."""
    with _claimed(part) as is_left:
        return not is_left


@contextmanager
def _claimed(part: Path) -> Iterator[bool]:
    """Yield whether the process that wrote a temporary file is gone.

    Within, the file stays locked: a writer that has just made it could lock it between the question and its removal.
    """
    try:
        handle = os.open(part, os.O_RDONLY)
    except FileNotFoundError:
        yield True
        return
    except PermissionError:  # it belongs to another user
        yield False
        return
    try:
        yield taken(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    """Return the process's umask (mkstemp ignores it; other readers of the files do not)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: str | Path, text: str) -> None:
    """Write ``text`` as UTF-8, atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
