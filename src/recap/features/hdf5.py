"""Reads foreign HDF5 in a child process: libhdf5 may hang or crash over a damaged file."""

from __future__ import annotations

import pickle
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from recap.core.errors import FeatureError

Result = TypeVar("Result")

_MEMORY = 2**32  # bytes of address space; a damaged length makes libhdf5 ask for more
_LARGEST = 2**29  # bytes of one dataset; more is no feature of one picture


class UnreadableHdf5(FeatureError):
    """Why an HDF5 file, or what was asked for of it, cannot be read; without the file's name."""


class Reader:
    """A child process that calls functions of a path.

    It starts when first asked, and ends with this process.
    """

    def __init__(self, seconds: int = 10) -> None:
        """Give each answer so many seconds of work; waiting for a slow disk is none."""
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None

    def ask(self, function: Callable[..., Result], path: Path, *arguments: str) -> Result:
        """Return what a function of a module gives for a file."""
        # Not multiprocessing, which would run the script of whoever uses this package once more.
        child = self._child or subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(self._seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._child = None  # whoever stops waiting must not get this answer to the next question
        try:
            request, answers = cast("IO[bytes]", child.stdin), cast("IO[bytes]", child.stdout)
            pickle.dump((function, path.absolute(), arguments), request)
            request.flush()
            succeeded, answer = pickle.load(answers)  # noqa: S301 (of our own process)
            self._child = child
        except (EOFError, BrokenPipeError):
            status = child.wait()
            endless = (
                f"reading it does not end; it was given up after {self._seconds} seconds of work"
            )
            crash = f"the HDF5 library ends over it (status {status})"
            succeeded, answer = False, endless if status == -signal.SIGXCPU else crash
        finally:
            if self._child is None:
                child.kill()
        if not succeeded:
            raise UnreadableHdf5(answer)
        return cast(Result, answer)


ask = Reader().ask


def main(seconds: int) -> None:
    """Answer until the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it
    for limit, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_AS, _MEMORY)):
        resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))
    while True:
        try:
            function, path, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 (of our own process)
        except EOFError:
            return
        # The kernel ends this process when an answer takes more work than that.
        most = int(time.process_time()) + 1 + seconds
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        try:
            answer = True, function(path, *arguments)
        except Exception as error:
            # libhdf5 and h5py raise whatever the damaged bytes happen to mean
            answer = False, " ".join(str(error).split())[:200] or type(error).__name__
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def names(path: Path) -> list[str]:
    """Return the names at the root of a file, which is opened anew."""
    _opened.cache_clear()
    return [str(name) for name in _opened(path)]


def numbers(path: Path, name: str) -> Any:
    """Return a dataset of numbers at the root of a file, read whole."""
    data = _opened(path)[name]
    if getattr(data, "dtype", None) is None or data.dtype.kind not in "fiu":
        raise ValueError(f"{data.name} is no dataset of numbers")
    if data.size * data.dtype.itemsize > _LARGEST:
        raise ValueError(
            f"{data.name} says that it has the shape {list(data.shape)}, too large for one image"
        )
    return data[()]


@lru_cache(maxsize=1)
def _opened(path: Path) -> Any:
    import h5py

    return h5py.File(path, "r", locking=False)


if __name__ == "__main__":
    main(int(sys.argv[1]))
