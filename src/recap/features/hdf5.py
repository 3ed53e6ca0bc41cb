"""Reads HDF5 files in a separate process, so that a damaged one can neither hang nor crash this process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from recap.core.errors import FeatureError
from recap.features import hdf5_process


class UnreadableHdf5(FeatureError):
    """Why an HDF5 file, or what was asked for of it, cannot be read; without the file's name."""


class Reader:
    """A process that reads HDF5 files; started when it is first asked, and again when it has ended meanwhile."""

    def __init__(self, seconds: int = 10) -> None:
        """Give each answer so many seconds of work."""
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._owner = 0

    def ask(self, question: str, path: Path, *arguments: str) -> Any:
        """Return the answer to a question of ``recap.features.hdf5_process``.

        Raises:
            UnreadableHdf5: says why there is none.
        """
        with self._lock:
            for _ in range(2):
                well, answer = self._asked(question, str(path.absolute()), *arguments)
                if well:
                    return answer
                if answer is not None:
                    raise UnreadableHdf5(answer)
        raise UnreadableHdf5("the process that reads HDF5 files ends before it answers")

    def _asked(self, *request: str) -> tuple[bool, Any]:
        """Ask once; the answer is None if the idle process had ended."""
        if self._process is None or self._process.poll() is not None or self._owner != os.getpid():
            self._start()
        assert self._process is not None and self._connection is not None
        try:
            self._connection.send((self._seconds, *request))
            well, answer = self._connection.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return False, self._reason(self._process.wait())
        except BaseException:
            # Whoever stops waiting must not get this answer to the next question.
            self._process.kill()
            self._process.wait()
            raise
        return well, answer

    def _start(self) -> None:
        if self._connection is not None:
            self._connection.close()
        ours, theirs = socket.socketpair()
        with theirs:
            handle = theirs.fileno()
            # It knows h5py and numpy alone, so that it starts in a fifth of a second.
            self._process = subprocess.Popen(
                [sys.executable, "-P", hdf5_process.__file__, str(handle)],
                pass_fds=[handle],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._connection, self._owner = Connection(ours.detach()), os.getpid()

    def _reason(self, status: int) -> str | None:
        """Say why the process ended without an answer; None if it was idle."""
        if status == -signal.SIGXCPU:
            return f"reading it does not end; it was given up after {self._seconds} seconds of work"
        if status < 0:
            return f"the HDF5 library crashes over it ({signal.Signals(-status).name})"
        return f"the process that reads HDF5 files ended with status {status}" if status else None


ask = Reader().ask
