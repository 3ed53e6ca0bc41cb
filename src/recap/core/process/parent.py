"""A workflow and its jobs: one workflow a folder, and no job goes on writing when its workflow has died.

Two files in one folder say who is at work. The workflow holds `owner` alone for as long as it lives, and writes a name
of its own into it. Every job holds a share of `jobs`, and ends when `owner` is free or has another name in it. The
kernel drops the locks of a dead process, so that nothing is ever left to unlock.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import signal
import socket
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from recap.core.errors import RecapError
from recap.core.files.lock import exclusive, taken
from recap.core.log import log

VARIABLE = "RECAP_WORKFLOW"  # name, host and folder of the workflow that started a job
GRACE_SECONDS = 120.0  # for a job that was told to end: a training finishes its batch and saves first
_LOOK_SECONDS = 0.5  # between two looks at the workflow


def hold(folder: Path) -> bool:
    """Make this process the workflow at work, until it ends; its jobs learn of it by the environment.

    Args:
        folder: where the two files lie; made if it is missing.

    Returns:
        Whether the workflow before this one was killed; all its jobs have ended now.

    Raises:
        RecapError: another workflow is at work here, or a job of a killed one does not end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    owner = os.open(folder / "owner", os.O_RDWR | os.O_CREAT, 0o666)
    if not _soon(owner):
        process = _read(owner).rpartition(" ")[2]
        raise RecapError(f"{Path.cwd()}: another workflow is at work here (process {process}); wait for it, or stop it")
    before = _read(owner)
    name = uuid.uuid4().hex
    _write(owner, f"{name} {os.getpid()}")
    atexit.register(_write, owner, "")  # a workflow that was killed leaves its name
    what = f"{Path.cwd()} (a job of the workflow that was killed is about to end)"
    with exclusive(folder / "jobs", wait_seconds=GRACE_SECONDS + 30, what=what):
        pass
    os.environ[VARIABLE] = f"{name} {socket.gethostname()} {folder.absolute()}"
    return bool(before)


def _soon(owner: int) -> bool:
    """Take the owner's lock; jobs that look whether it is free hold it for an instant, so one try is not enough."""
    end = time.monotonic() + 1
    while not taken(owner):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _read(owner: int) -> str:
    return os.pread(owner, 200, 0).decode("ascii", "replace")


def _write(owner: int, text: str) -> None:
    os.ftruncate(owner, 0)
    os.pwrite(owner, text.encode("ascii"), 0)
    os.fsync(owner)


@dataclass(frozen=True)
class _Parent:
    """The workflow that started this process, as the environment describes it."""

    name: str
    folder: Path
    process: int  # the shell, or torchrun, between the workflow and this process

    def alive(self) -> bool:
        """Whether the workflow still holds its lock, and whatever it started this process with is still there."""
        try:
            owner = os.open(self.folder / "owner", os.O_RDONLY)
        except FileNotFoundError:  # somebody cleans up: what this job would write belongs to nobody
            return False
        try:
            mine = _read(owner).partition(" ")[0] == self.name
            return mine and not _shared(owner) and os.getppid() == self.process
        finally:
            os.close(owner)


def _shared(handle: int) -> bool:
    """Take a share of a lock without waiting; return whether nobody holds it alone."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def workflow_folder() -> Path | None:
    """Return the folder of the locks of the workflow that started this process, or None if none on this machine did."""
    parent = _parent()
    return parent.folder if parent else None


def _parent() -> _Parent | None:
    """Return the workflow of this process, or None; on another machine its locks may mean nothing."""
    if VARIABLE not in os.environ:
        return None
    name, host, folder = os.environ[VARIABLE].split(" ", 2)
    return _Parent(name, Path(folder), os.getppid()) if host == socket.gethostname() else None


def watch() -> None:
    """Hold this job's share, and let it end if its workflow dies; do nothing where there is no workflow.

    The end is a SIGTERM to this process, so that a training saves and half-written files go; a process that does not
    hear it is gone after `GRACE_SECONDS`.
    """
    parent = _parent()
    if parent is None:
        return
    jobs = os.open(parent.folder / "jobs", os.O_RDWR | os.O_CREAT, 0o666)  # held until this process ends
    fcntl.flock(jobs, fcntl.LOCK_SH)  # a workflow that begins holds it for an instant
    threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: _Parent) -> None:
    while parent.alive():
        time.sleep(_LOOK_SECONDS)
    with suppress(OSError):  # the terminal may have gone with the workflow
        log.info("recap: the workflow that started this job has ended, so the job ends, too")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(128 + signal.SIGTERM)
