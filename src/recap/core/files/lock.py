"""Locks that die with their process: one process at a time, with a bounded wait that is logged."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recap.core.errors import InUse, RecapError
from recap.core.log import log

_PAUSE = 0.1  # seconds between two tries
_SILENT = 1.0  # seconds of waiting before it is logged


@contextmanager
def exclusive(path: Path, *, wait_seconds: float, what: str) -> Iterator[None]:
    """Hold the lock on a folder, or on a file that is created if missing; a second process waits and logs that.

    The lock is the kernel's (flock) and is released when its process ends, however that ends. A lock file holds the
    number of its process, for the message of a waiting process.

    Args:
        path: an existing folder, or the lock file.
        wait_seconds: how long to wait for another process; 0: not at all.
        what: what is being locked, for messages, e.g. "the store mlflow/mlflow.db".

    Raises:
        RecapError: another process held the lock all that time, or the lock file cannot be made.
    """
    handle = _opened(path)
    try:
        wait_for(handle, path, wait_seconds=wait_seconds, what=what)
        if not path.is_dir():
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _opened(path: Path) -> int:
    try:
        if path.is_dir():
            return os.open(path, os.O_RDONLY)
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise RecapError(f"{path}: cannot be made ({error.strerror}); make its folder writable") from error


def wait_for(handle: int, path: Path, *, wait_seconds: float, what: str) -> None:
    """Take the lock of an open file; a longer wait is logged. See `exclusive`."""
    start, said = time.monotonic(), False
    while not taken(handle):
        waited = time.monotonic() - start
        if waited >= wait_seconds:
            break
        if waited > _SILENT and not said:
            log.info(f"{what} is in use by {_owner(handle, path)}: waiting for it, at most {wait_seconds:g} s")
            said = True
        time.sleep(_PAUSE)
    else:
        return
    who = _owner(handle, path) + (f" after {wait_seconds:g} s" if wait_seconds else "")
    raise InUse(f"{what} is still in use by {who} (lock {path}); let that process end, then run this again")


def _owner(handle: int, path: Path) -> str:
    number = "" if path.is_dir() else os.pread(handle, 20, 0).decode("ascii", "replace")
    return f"process {number}" if number.isdecimal() else "another process"


def taken(handle: int, *, shared: bool = False) -> bool:
    """Take the lock of an open file without waiting; return whether it is ours now.

    Args:
        handle: of the file.
        shared: take a lock that others may share, which they cannot while somebody holds the other kind.

    Raises:
        RecapError: the file system knows no locks.
    """
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise RecapError(
            f"this file system has no locks ({error.strerror}); work in a folder on another disk"
        ) from error
    return True
