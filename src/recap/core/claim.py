"""A state folder belongs to one training at a time: two would save into each other's state."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recap.core.errors import TrainingError
from recap.core.log import say

NAME = "lock"
PATIENCE = 60.0  # seconds: the training of a workflow that was killed may be saving its state


@contextmanager
def claimed(folder: Path, *, patience: float = PATIENCE) -> Iterator[None]:
    """Hold a state folder for as long as a training lives; the lock dies with its process.

    Args:
        folder: made if it is missing.
        patience: seconds to wait for another training to let it go.

    Raises:
        TrainingError: another training still holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / NAME).open("a+", encoding="utf-8") as file:
        until, said = time.monotonic() + patience, False
        while not _locked(file.fileno()):
            file.seek(0)
            owner = file.read().strip() or "unknown"
            if time.monotonic() >= until:
                raise TrainingError(
                    f"{folder}: another training, process {owner}, is at work in this state folder; wait for its end, "
                    f"or end it with `kill {owner}` (it saves first), and run the same command again"
                )
            if not said:
                say(f"{folder}: held by another training, process {owner}; waiting up to {patience:.0f} s for its end")
                said = True
            time.sleep(0.2)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
