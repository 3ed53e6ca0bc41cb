"""What the system says when a file cannot be written, in one sentence that names the file and the remedy."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recap.core.errors import RecapError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_REMEDIES = {
    errno.EROFS: "the folder is read-only; name another folder",
    errno.EACCES: "the folder may not be written; change its permissions, or name another folder",
    errno.EPERM: "the folder may not be written; change its permissions, or name another folder",
    errno.EIO: "the disk reports an error; check the disk, or name another folder",
    errno.EFBIG: "the file is larger than this disk or `ulimit -f` allows; name another folder",
    errno.EISDIR: "a folder is where the file should be; remove it, or name another file",
    errno.EEXIST: "a file is where a folder should be; remove it, or name another folder",
    errno.ENOTDIR: "a file is where a folder should be; remove it, or name another folder",
    errno.ENAMETOOLONG: "the name is too long for this disk; choose a shorter one",
    errno.ENOENT: "the folder cannot be made; name another folder",
}
# If less than this is free, a failed write is reported as a full disk, whatever the library's error says.
_PROBE = 2**20


@contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Turn what goes wrong with the disk while ``path`` is written into a sentence.

    Libraries write past Python and raise other exceptions (torch: RuntimeError) when the disk is full; then the disk
    is asked.

    Raises:
        RecapError: the disk is full or may not be written, or a folder is where a file should be or the reverse.
    """
    try:
        yield
    except RecapError:
        raise
    except Exception as error:
        reason = _reason(error, path)
        if reason is None:
            raise
        raise RecapError(f"{path}: {reason}") from error


def _reason(error: Exception, path: Path) -> str | None:
    """Return what is wrong with the disk below ``path``; None if the error has another cause."""
    if isinstance(error, OSError) and error.errno is not None:
        code = error.errno if error.errno in _FULL or _concerns(error.filename, path) else None
    else:
        code = next((code for code in _FULL if os.strerror(code) in str(error)), None) or _probed(path.parent)
    if code in _FULL:
        return f"the disk is full ({_room(path)}); make room and run it again"
    return None if code is None else _REMEDIES.get(code)


def _concerns(name: str | bytes | None, path: Path) -> bool:
    """Say whether an error's file is ``path``, its unfinished part or a folder above; failed writes name none."""
    if name is None:
        return True
    place = Path(os.fsdecode(name))
    part = place.parent == path.parent and place.name.startswith(f".{path.name}.")
    return part or place == path or place in path.parents


def _room(path: Path) -> str:
    """Return how much is free where ``path`` would be; a disk may also run out of names for files."""
    folder = next(folder for folder in path.parents if folder.exists())
    free = f"{shutil.disk_usage(folder).free / 2**20:.0f} MiB free"
    return free if os.statvfs(folder).f_favail or not os.statvfs(folder).f_files else f"{free}, no room for more files"


def _probed(folder: Path) -> int | None:
    """Return the error number of a small write into a folder; None if it succeeds."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_PROBE))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno
    return None
