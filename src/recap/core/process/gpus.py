"""One job a GPU: jobs of a workflow that run at once take different ones."""

from __future__ import annotations

import os
import time
from itertools import takewhile
from pathlib import Path

from recap.core.errors import InUse, RecapError
from recap.core.files.lock import taken
from recap.core.log import log
from recap.core.process.workflow_lock import workflow_folder

VISIBLE = "CUDA_VISIBLE_DEVICES"
_NONE = ("", "-1", "NoDevFiles")  # what CUDA and batch systems say for "no GPU"
_WAIT_SECONDS = 24 * 3600.0
_PAUSE = 0.5  # seconds between two looks for a free GPU


def devices() -> list[str]:
    """Return the GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    if VISIBLE in os.environ:
        names = [name.strip() for name in os.environ[VISIBLE].split(",")]
        return list(takewhile(lambda name: name not in _NONE, names))
    return [str(index) for index, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]


def claim(device: str, number: int = 1) -> None:
    """Take free GPUs for this process until it ends, and let torch see them alone; call it before torch is used.

    Only for a job of a workflow that may use a GPU: a command outside a workflow chooses by `CUDA_VISIBLE_DEVICES`.

    Args:
        device: what the job was told to use: ``auto``, ``cpu`` or ``cuda``.
        number: how many GPUs it wants.

    Raises:
        RecapError: there are fewer GPUs, or other jobs keep them.
    """
    folder, names = workflow_folder(), devices()
    if device == "cpu" or folder is None or not names:
        return
    if number > len(names):
        raise RecapError(f"{number} processes want a GPU each, but there are {len(names)}; set `processes` lower")
    if not _take(names, number, folder):
        log.info(f"all {len(names)} GPUs are in use by other jobs of this workflow: waiting for {number}")
        end = time.monotonic() + _WAIT_SECONDS
        while not _take(names, number, folder):
            if time.monotonic() > end:
                raise InUse("all GPUs have been in use by other jobs of this workflow for a day; start fewer jobs")
            time.sleep(_PAUSE)


def _take(names: list[str], number: int, folder: Path) -> bool:
    """Lock so many free GPUs, or none; their locks are those of this process and of a program it becomes."""
    held: dict[str, int] = {}
    for index, name in enumerate(names):
        handle = os.open(folder / f"gpu-{index}", os.O_RDWR | os.O_CREAT, 0o666)
        if len(held) < number and taken(handle):
            held[name] = handle
        else:
            os.close(handle)
    if len(held) < number:
        for handle in held.values():
            os.close(handle)
        return False
    for handle in held.values():
        os.set_inheritable(handle, True)  # for torchrun, which takes this process's place
    os.environ[VISIBLE] = ",".join(held)
    return True
