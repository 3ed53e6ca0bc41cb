"""Locks of a workflow and its jobs: one workflow per folder, and no job outlives the workflow that started it.

Two lock files in one folder. The workflow holds an exclusive lock on `owner` while it runs and writes its unique id
into it. Every job holds a shared lock on `jobs`, and ends when `owner` is unlocked or has another id in it. The kernel
releases the locks of a dead process, so that no stale lock remains.
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

WORKFLOW_VARIABLE = "RECAP_WORKFLOW"  # id, host and lock folder of the workflow that started a job
GRACE_SECONDS = 120.0  # for a job that got SIGTERM: training finishes its batch and saves first
_POLL_SECONDS = 0.5  # between two checks of the workflow


def lock_workflow(folder: Path) -> bool:
    """Take the workflow lock for as long as this process lives; jobs learn of it from the environment.

    Args:
        folder: of the two lock files; created if missing.

    Returns:
        Whether the previous workflow was killed; all its jobs have ended now.

    Raises:
        RecapError: another workflow is running here, or a job of a killed one does not end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    owner = os.open(folder / "owner", os.O_RDWR | os.O_CREAT, 0o666)
    if not _lock_with_retries(owner):
        process = _read(owner).rpartition(" ")[2]
        raise RecapError(f"{Path.cwd()}: another workflow is running here (process {process}); wait for it, or stop it")
    before = _read(owner)
    workflow_id = uuid.uuid4().hex
    _write(owner, f"{workflow_id} {os.getpid()}")
    atexit.register(_write, owner, "")  # the id of a killed workflow remains
    what = f"{Path.cwd()} (a job of the killed workflow is still ending)"
    with exclusive(folder / "jobs", wait_seconds=GRACE_SECONDS + 30, what=what):
        pass
    os.environ[WORKFLOW_VARIABLE] = f"{workflow_id} {socket.gethostname()} {folder.absolute()}"
    return bool(before)


def _lock_with_retries(owner: int) -> bool:
    """Take the owner's lock; jobs that check whether it is free hold it for an instant, so one try is not enough."""
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

    workflow_id: str
    folder: Path
    process: int  # parent process: the shell, or torchrun, between the workflow and this process

    def alive(self) -> bool:
        """Return whether the workflow still holds its lock and the parent process still runs."""
        try:
            owner = os.open(self.folder / "owner", os.O_RDONLY)
        except FileNotFoundError:  # the folder was removed, and with it what this job would write to
            return False
        try:
            same_workflow = _read(owner).partition(" ")[0] == self.workflow_id
            return same_workflow and not _lock_shared(owner) and os.getppid() == self.process
        finally:
            os.close(owner)


def _lock_shared(handle: int) -> bool:
    """Take a shared lock without waiting; return False if a process holds the exclusive one."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def workflow_folder() -> Path | None:
    """Return the lock folder of the workflow that started this process, or None if none on this machine did."""
    parent = _parent()
    return parent.folder if parent else None


def _parent() -> _Parent | None:
    """Return the workflow of this process, or None; locks of a workflow on another machine cannot be checked."""
    if WORKFLOW_VARIABLE not in os.environ:
        return None
    workflow_id, host, folder = os.environ[WORKFLOW_VARIABLE].split(" ", 2)
    return _Parent(workflow_id, Path(folder), os.getppid()) if host == socket.gethostname() else None


def exit_with_workflow() -> None:
    """Take this job's shared lock, and end this process if its workflow ends; outside a workflow do nothing.

    The process gets SIGTERM, so that training saves and unfinished files are removed; if it ignores that, it is ended
    after `GRACE_SECONDS`.
    """
    parent = _parent()
    if parent is None:
        return
    jobs = os.open(parent.folder / "jobs", os.O_RDWR | os.O_CREAT, 0o666)  # held until this process ends
    fcntl.flock(jobs, fcntl.LOCK_SH)  # a workflow that starts holds it for an instant
    threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: _Parent) -> None:
    while parent.alive():
        time.sleep(_POLL_SECONDS)
    with suppress(OSError):  # the terminal may have gone with the workflow
        log.info("recap: the workflow that started this job has ended; stopping the job")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(128 + signal.SIGTERM)
