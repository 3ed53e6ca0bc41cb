"""Files: whole or absent, read at one boundary, locked by one process; and cells of a CSV."""

from __future__ import annotations

import csv
import errno
import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout, lock_descriptor

from recap.core.errors import OF_FILES, DataError, InUse, RecapError
from recap.core.log import log
from recap.core.process import cause

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_DISK = "the disk is full, or has no room for more files; make room and run it again"
_ROOM = 2**20  # bytes; where less is free, a library's own error is that of a full disk
_MISTAKES = (AssertionError, AttributeError, ImportError, NameError, TypeError)  # our own
_UMASK = os.umask(0)  # mkstemp ignores it; other readers of the files do not
os.umask(_UMASK)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs a cell that begins so


@contextmanager
def reading(
    path: str | Path,
    room: type[RecapError] = DataError,
    *,
    missing: str = "correct its name",
    damaged: str = "fetch or make it again",
) -> Iterator[None]:
    """Turn whatever a library raises while it reads ``path`` into one sentence, an error of the
    room.

    Mistakes of the program pass: what is raised for a wrong type, name or attribute.
    """
    absent, broken = OF_FILES[room]
    try:
        yield
    except (RecapError, *_MISTAKES):
        raise
    except FileNotFoundError as error:
        raise absent(f"{path}: no such file; {missing}") from error
    except Exception as error:
        log.debug(f"{path}", exc_info=True)
        kind = broken
        reason = f"{type(error).__name__}: {cause(error)}"
        remedy = damaged
        if isinstance(error, UnicodeDecodeError):
            reason = f"is no UTF-8 (byte {error.start})"
        # a library's own, such as Pillow's, has no number
        elif isinstance(error, OSError) and error.errno is not None:
            kind = room
            reason = f"cannot be read ({error.strerror})"
            remedy = "name a file that you may read"
        raise kind(f"{path}: {reason}; {remedy}") from error


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn what the disk refuses while ``path`` is written into a sentence.

    Other errors, and of other files, pass.
    """
    path = Path(path)
    try:
        yield
    except Exception as error:
        problem = None if isinstance(error, RecapError) else _refusal(error, path)
        if problem is None:
            raise
        raise RecapError(f"{path}: {problem}") from error


def _refusal(error: Exception, path: Path) -> str | None:
    """Return what the disk refused while a file was written; None: it refused nothing of it."""
    code = getattr(error, "errno", None)
    # Libraries that write past Python say a full disk in their own ways (torch: RuntimeError).
    if code is None:
        folder = next(folder for folder in path.absolute().parents if folder.exists())
        return _FULL_DISK if shutil.disk_usage(folder).free < _ROOM else None
    if code in _FULL:
        return _FULL_DISK
    # failed writes name no file
    place = Path(os.fsdecode(getattr(error, "filename", None) or path))
    part = place.parent == path.parent and place.name.startswith(f".{path.name}.")
    if not (part or place == path or place in path.parents):
        return None
    return f"cannot be written ({os.strerror(code).lower()}); mend that, or name another place"


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``;
    on success it is synced and renamed, on failure removed.

    The temporary files of killed writes of the same file are removed first; that of a running one
    is kept.
    """
    path = Path(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent, re.escape(path.name))
        while True:  # a new file, whose lock shows that its writer is running
            handle, name = tempfile.mkstemp(
                dir=path.parent, prefix=f".{path.name}.", suffix=".part"
            )
            if lock_descriptor(handle, blocking=False) and os.fstat(handle).st_nlink:
                break
            os.close(handle)  # another writer took it for a leftover before it was locked
    temporary = Path(name)
    try:
        with writing(path):
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o666 & ~_UMASK)
            temporary.replace(path)
    finally:
        # If the disk became read-only, the temporary file remains; the next write removes it.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        os.close(handle)


def remove_leftovers(folder: Path, names: str) -> None:
    """Remove the temporary files of killed writes of files whose names match,
    and what a library wrote beside them."""
    temporary = re.compile(rf"(\.(?:{names})\.[a-z0-9_]{{8}}\.part)(?:-[a-z]+)?")
    entries = os.listdir(folder) if folder.is_dir() else []  # noqa: PTH208 (names alone)
    parts = filter(None, map(temporary.fullmatch, entries))
    # a part goes after what was beside it
    for match in sorted(parts, key=lambda match: -len(match[0])):
        # Another process may remove it at the same time; that of another user stays.
        with suppress(FileNotFoundError, PermissionError), (folder / match[1]).open("rb") as part:
            if lock_descriptor(part.fileno(), blocking=False):
                (folder / match[0]).unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write ``text`` as UTF-8, atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def exclusive(path: Path, *, wait_seconds: float, what: str) -> Iterator[None]:
    """Hold the lock file ``path``, which ends with its process.

    A second process waits and says for ``what``.
    """
    # A soft lock, where the file system has no other, would outlive a killed process.
    lock = FileLock(path, fallback_to_soft=False)
    used = f"{what} is in use by another process"
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if wait_seconds:
                log.info(f"{used}: waiting for it, at most {wait_seconds:g} s")
            try:
                lock.acquire(timeout=wait_seconds)
            except Timeout as error:
                raise InUse(
                    f"{used} (lock {path}); let that process end, then run this again"
                ) from error
    try:
        yield
    finally:
        lock.release()


def no_formula(text: str) -> str:
    """Return the text of a cell so that no spreadsheet takes it for a formula:
    after an apostrophe where it would."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def csv_value(value: Any) -> str:
    """Return a value for a CSV: empty for None, no formulas, numbers with all their digits."""
    if value is None:
        return ""
    return no_formula(value) if isinstance(value, str) else repr(value)


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as the text of a CSV, the same on every system."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
