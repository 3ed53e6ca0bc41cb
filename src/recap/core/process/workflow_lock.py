"""The lock of a workflow and its jobs: one workflow per folder, and no job outlives the workflow that started it.

The workflow holds an exclusive lock on the file `owner` while it runs, with its unique id in it. Each job waits for a
shared lock on that file: it gets it when the workflow has ended, however that ended, and holds it until it has ended
itself. So the next workflow begins when the jobs of a killed one are gone. The kernel releases the locks of a dead
process, so that no stale lock remains.
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
from pathlib import Path

from recap.core.errors import InUse
from recap.core.files.lock import taken, wait_for
from recap.core.log import log

LOCK_FOLDER = Path(".snakemake/recap")  # in the folder where a workflow runs
WORKFLOW_VARIABLE = "RECAP_WORKFLOW"  # id, host and lock folder of the workflow that started a job
GRACE_SECONDS = 120.0  # for a job that got SIGTERM: training finishes its batch and saves first
_HANDOVER_SECONDS = 0.3  # in which the jobs of a killed workflow get the lock that they wait for


def lock_workflow(folder: Path) -> bool:
    """Take the workflow lock for as long as this process lives; jobs learn of it from the environment.

    Args:
        folder: of the lock file; created if missing.

    Returns:
        Whether the previous workflow was killed; all its jobs have ended now.

    Raises:
        InUse: another workflow is running here, or a job of a killed one does not end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    owner = os.open(folder / "owner", os.O_RDWR | os.O_CREAT, 0o666)
    if not taken(owner, shared=True):
        process = _read(owner).rpartition(" ")[2]
        raise InUse(f"{Path.cwd()}: another workflow is running here (process {process}); wait for it, or stop it")
    killed = bool(_read(owner))  # a workflow that ends by itself takes its id away
    if killed:
        fcntl.flock(owner, fcntl.LOCK_UN)
        time.sleep(_HANDOVER_SECONDS)
    what = f"{Path.cwd()} (a job of the killed workflow is still ending)"
    wait_for(owner, folder / "owner", wait_seconds=GRACE_SECONDS + 30, what=what)
    workflow_id = uuid.uuid4().hex
    _write(owner, f"{workflow_id} {os.getpid()}")
    atexit.register(_write, owner, "")
    os.environ[WORKFLOW_VARIABLE] = f"{workflow_id} {_place()} {folder.absolute()}"
    return killed


def running_workflow(folder: Path = LOCK_FOLDER) -> str | None:
    """Return the number of the process whose workflow holds the lock of a folder; None if none does."""
    try:
        owner = os.open(folder / "owner", os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return None if taken(owner, shared=True) else _read(owner).rpartition(" ")[2]
    finally:
        os.close(owner)


def workflow_folder() -> Path | None:
    """Return the lock folder of the workflow that started this process, or None if none on this machine did."""
    workflow = _workflow()
    return workflow[1] if workflow else None


def exit_with_workflow() -> None:
    """End this process if its workflow ends; outside a workflow do nothing.

    The process gets SIGTERM, so that training saves and unfinished files are removed; if it ignores that, it is ended
    after `GRACE_SECONDS`.
    """
    workflow = _workflow()
    if workflow is not None:
        threading.Thread(target=_exit_after, args=workflow, daemon=True).start()


def _exit_after(workflow_id: str, folder: Path) -> None:
    with suppress(FileNotFoundError):  # the folder was removed, and with it what this job would write to
        owner = os.open(folder / "owner", os.O_RDONLY)  # open, and so locked, until this process ends
        if _read(owner).partition(" ")[0] == workflow_id:
            fcntl.flock(owner, fcntl.LOCK_SH)
    with suppress(OSError):  # the terminal may have gone with the workflow
        log.info("recap: the workflow that started this job has ended; stopping the job")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(128 + signal.SIGTERM)


def _workflow() -> tuple[str, Path] | None:
    """Return id and folder of this job's workflow, or None where it cannot be checked, or Slurm looks after the job."""
    if WORKFLOW_VARIABLE not in os.environ:
        return None
    workflow_id, place, folder = os.environ[WORKFLOW_VARIABLE].split(" ", 2)
    return (workflow_id, Path(folder)) if place == _place() else None


def _place() -> str:
    """Return the machine and the Slurm job of this process: a workflow may itself run in one."""
    return "/".join([socket.gethostname(), *filter(None, [os.environ.get("SLURM_JOB_ID")])])


def _read(owner: int) -> str:
    return os.pread(owner, 200, 0).decode("ascii", "replace")


def _write(owner: int, text: str) -> None:
    os.ftruncate(owner, 0)
    os.pwrite(owner, text.encode("ascii"), 0)
    os.fsync(owner)
