"""A command as a process: signals that trainings hear, its workflow, GPUs and memory."""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Any, Self

from filelock import lock_descriptor, unlock_descriptor

from recap.core.errors import InUse, RecapError, first_line
from recap.core.log import log, record_failure

LEAST_MEMORY = 4 * 2**30  # bytes; no annotations of COCO take as much
LOCK_FOLDER = Path(".snakemake/recap")  # in the folder where a workflow runs
# process, machine and lock folder of the workflow that started a job
WORKFLOW_VARIABLE = "RECAP_WORKFLOW"
SHARED = "RECAP_JOBS_PER_GPU"  # how many of the workflow's jobs share a GPU
VISIBLE = "CUDA_VISIBLE_DEVICES"
_COPIES = 4  # of a checkpoint: as it is read, by our names, in our order, as it is written
_NO_GPU = ("", "-1", "NoDevFiles")  # what CUDA and batch systems say for "no GPU"


class GracefulStop:
    """Within it, SIGTERM and SIGINT set `received`, and a loop then saves and calls `exit`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.received: int | None = None
        self._interrupts = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Python allows handlers only there
        if threading.current_thread() is threading.main_thread():
            self._before = {
                number: signal.signal(number, self._handle)
                for number in (signal.SIGTERM, signal.SIGINT)
            }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        self.received = self.received or number
        if self._interrupts:
            self._interrupts = False  # one exception is enough
            raise SystemExit(128 + number)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Run a part that a signal ends at once by SystemExit, also one received before."""
        if self.received:
            raise SystemExit(128 + self.received)
        self._interrupts = True
        try:
            yield
        finally:
            self._interrupts = False

    def exit(self, message: str) -> SystemExit:
        """Report that the job was stopped, with ``message``, and return the exception to raise."""
        # another process of the training may have received it
        number = self.received or signal.SIGTERM
        reason = f"stopped by {signal.Signals(number).name}; {message}"
        log.info(f"{self.name}: {reason}")
        record_failure(reason)
        return SystemExit(128 + number)


def lock_workflow(folder: Path) -> bool:
    """Hold a folder's workflow lock while this process lives.

    Return whether the previous workflow was killed.
    """
    process = folder / "process"
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    if not lock_descriptor(handle, blocking=False):
        number = process.read_text() if process.exists() else "unknown"
        raise InUse(
            f"{Path.cwd()}: another workflow is running here (process {number}); wait for it, or "
            "stop it"
        )
    killed = process.exists()  # a workflow that ends by itself removes it
    process.write_text(str(os.getpid()))
    atexit.register(process.unlink, missing_ok=True)
    os.environ[WORKFLOW_VARIABLE] = f"{os.getpid()} {_place()} {folder.absolute()}"
    return killed


def exit_without_workflow() -> None:
    """End a job whose workflow was killed before the shell could ask `ending_with_us`."""
    workflow = _workflow()
    if workflow is not None:
        try:
            os.kill(workflow[0], 0)  # asks whether it is there
        except OSError:
            raise SystemExit(128 + signal.SIGTERM) from None


def _workflow() -> tuple[int, Path] | None:
    """Return process and lock folder of this job's workflow.

    None if there is none, or Slurm looks after the job.
    """
    if WORKFLOW_VARIABLE not in os.environ:
        return None
    number, place, folder = os.environ[WORKFLOW_VARIABLE].split(" ", 2)
    return (int(number), Path(folder)) if place == _place() else None


def _place() -> str:
    """Return the machine and the Slurm job of this process: a workflow may itself run in one."""
    return "/".join([socket.gethostname(), *filter(None, [os.environ.get("SLURM_JOB_ID")])])


def devices() -> list[str]:
    """Return the GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    if VISIBLE in os.environ:
        names = [name.strip() for name in os.environ[VISIBLE].split(",")]
        return list(takewhile(lambda name: name not in _NO_GPU, names))
    return [str(index) for index, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]


def uses_gpus(device: str) -> bool:
    """Return whether jobs use GPUs: where there are none, `auto` means the CPU."""
    return device == "cuda" or (device == "auto" and bool(devices()))


def acquire_gpus(device: str, number: int = 1) -> None:
    """Take free places on GPUs until this job of a workflow ends,
    and let torch, not used yet, see these GPUs alone."""
    workflow = _workflow()
    names = devices()
    if device == "cpu" or workflow is None or not names:
        return
    if number > len(names):
        raise RecapError(
            f"{number} processes want a GPU each, but there are {len(names)}; set `processes` lower"
        )
    places = names * int(os.environ.get(SHARED, "1"))  # the first of each GPU come first
    files = [
        os.open(workflow[1] / f"gpu-{index}", os.O_RDWR | os.O_CREAT, 0o666)
        for index in range(len(places))
    ]
    taken = _take(places, files, number)
    if not taken:
        log.info(
            f"all {len(places)} places on GPUs are taken by jobs of this workflow: waiting for "
            f"{number}"
        )
    while not taken:
        time.sleep(0.5)
        taken = _take(places, files, number)
    for file in taken.values():
        os.set_inheritable(file, True)  # for torchrun, which takes this process's place
    os.environ[VISIBLE] = ",".join(taken)


def _take(places: Sequence[str], files: Sequence[int], number: int) -> dict[str, int]:
    """Lock so many of these files, each of another GPU; return them by GPU, or none."""
    taken: dict[str, int] = {}
    for name, file in zip(places, files, strict=True):
        wanted = len(taken) < number and name not in taken
        if wanted and lock_descriptor(file, blocking=False):
            taken[name] = file
    if len(taken) < number:
        while taken:  # all or none, for another job may wait for these and hold the rest
            unlock_descriptor(taken.popitem()[1])
    return taken


def ending_with_us(command: Sequence[str | Path]) -> list[str | Path]:
    """Return a command whose process gets SIGTERM when this one ends, however that ends.

    Elsewhere than Linux as is.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM", *command] if setpriv else list(command)


@contextmanager
def limited_memory(*weights: Path) -> Iterator[None]:
    """Limit the memory to half of the machine's,
    and at least to 4 GiB beside what files of weights need.

    RLIMIT_DATA leaves maps of large stores alone, which RLIMIT_AS would count. Child processes
    inherit it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if not sys.platform.startswith("linux"):
        log.info("files from outside may take any memory: this system has no limit for it")
    elif soft == resource.RLIM_INFINITY:
        half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        size = sum(file.stat().st_size for file in weights if file.is_file())
        limit = max(half, LEAST_MEMORY + _COPIES * size)
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def out_of_memory(error: BaseException) -> bool:
    """Return whether Python or torch asked for memory that there is not."""
    return isinstance(error, MemoryError) or "DefaultCPUAllocator: can't allocate memory" in str(
        error
    )


def cause(error: BaseException) -> str:
    """Return why a file cannot be read, for a sentence."""
    if out_of_memory(error):
        return "it needs more memory than a file from outside gets"
    return first_line(error)
