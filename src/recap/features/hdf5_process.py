"""Reads HDF5 files in a separate process (``recap.features.hdf5`` sends requests), because libhdf5 may spin
for ever or crash over a damaged file, where no signal handler of Python runs.

A question says how many seconds of work its answer may take; then the kernel ends the process. Waiting for a slow disk
is no work. The process ends by itself after ``_IDLE`` seconds without a request, or when its parent has ended.
"""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_IDLE = 10.0
_MEMORY = 2**32  # bytes of address space; a damaged length makes libhdf5 ask for more
_LARGEST = 2**29  # bytes of one dataset that is read whole; more is no feature of one picture

_opened: dict[tuple[str, int, int], Any] = {}  # the file that was asked for last, by path, inode and time of change


def store(path: str) -> dict[str, Any]:
    """Return the attributes and index of a feature store, and the positions of its other arrays.

    Returns:
        ``attributes`` by name; ``read``: arrays by path (``ids``, ``grid/offsets``); ``places``: type, shape and byte
        offset by path of arrays that are contiguous, neither compressed nor filtered.
    """
    import h5py

    # Locks fail on some network disks and protect nothing here: stores are replaced whole, never changed.
    with h5py.File(path, "r", locking=False) as file:
        attributes = {str(key): str(value) for key, value in file.attrs.items()}
        small = ["ids", "image_sizes", "digests", *(f"{s}/offsets" for s in attributes["streams"].split())]
        read = {name: _numbers(file[name]) for name in small}
        groups = {stream: file[stream] for stream in attributes["streams"].split()}
        places = {f"{stream}/{name}": _place(group[name]) for stream, group in groups.items() for name in group}
    return {"attributes": attributes, "read": read, "places": places}


def names(path: str) -> list[str]:
    """Return the names at the root of a file."""
    _opened.clear()
    return [str(name) for name in _file(path)]


def dataset(path: str, name: str) -> Any:
    """Return a dataset of numbers at the root of a file, read whole."""
    return _numbers(_file(path)[name])


QUESTIONS: dict[str, Callable[..., Any]] = {"store": store, "names": names, "dataset": dataset}


def _file(path: str) -> Any:
    import h5py

    found = Path(path).stat()
    key = (path, found.st_ino, found.st_ctime_ns)
    if key not in _opened:
        _opened.clear()
        _opened[key] = h5py.File(path, "r", locking=False)
    return _opened[key]


def _numbers(found: Any) -> Any:
    """Read a dataset of numbers."""
    if getattr(found, "dtype", None) is None or found.dtype.kind not in "fiu":
        raise ValueError(f"{found.name} is no dataset of numbers")
    if found.size * found.dtype.itemsize > _LARGEST:
        raise ValueError(f"{found.name} says that it has the shape {list(found.shape)}, too large for one image")
    return found[()]


def _place(found: Any) -> tuple[str, tuple[int, ...], int]:
    """Return type, shape and byte offset of a dataset that can be mapped."""
    offset = found.id.get_offset()
    if offset is None:
        raise ValueError(f"{found.name} is not contiguous")
    return found.dtype.str, found.shape, offset


def _limit_work(seconds: int) -> None:
    """Let the kernel end this process after so many more seconds of work."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + seconds)


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    resource.setrlimit(which, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _answer(question: str, *arguments: str) -> tuple[bool, Any]:
    """Return whether it went well, and the answer or the reason why not."""
    try:
        return True, QUESTIONS[question](*arguments)
    except Exception as error:  # libhdf5 and h5py raise whatever the damaged bytes happen to mean
        return False, " ".join(str(error).split())[:200] or type(error).__name__


def main(handle: int) -> None:
    """Answer requests until the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, _MEMORY)
    with Connection(handle) as asker:
        while asker.poll(_IDLE):
            try:
                seconds, question, *arguments = asker.recv()
                _limit_work(seconds)
                asker.send(_answer(question, *arguments))
            except (EOFError, BrokenPipeError, ConnectionResetError):
                return


if __name__ == "__main__":
    main(int(sys.argv[1]))
