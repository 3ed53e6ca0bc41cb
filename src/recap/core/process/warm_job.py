"""A command that runs in a fork of a process which has imported the libraries already (`recap.rehearsal.warm`).

It takes the place of ``python -m recap`` where the environment names that process, and imports nothing that takes time.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path

VARIABLE = "RECAP_WARM_JOBS"
"""Environment variable: the socket of that process."""


def main() -> None:
    """Hand words, folder, environment and open files over, wait for the exit status, and exit with it."""
    asked = {"words": sys.argv[1:], "folder": str(Path.cwd()), "environment": dict(os.environ)}
    text = json.dumps(asked).encode()
    with socket.socket(socket.AF_UNIX) as jobs:
        jobs.connect(os.environ[VARIABLE])
        socket.send_fds(jobs, [len(text).to_bytes(4, "big")], [0, 1, 2])
        jobs.sendall(text)
        signal.signal(signal.SIGTERM, lambda number, _: jobs.sendall(bytes([number])))
        status = jobs.recv(1)
    sys.exit(status[0] if status else 1)  # a fork that was killed says nothing


def read_exactly(connection: socket.socket, count: int) -> bytes:
    """Return so many bytes of a connection, or fewer if it ends before."""
    parts = bytearray()
    while len(parts) < count and (part := connection.recv(count - len(parts))):
        parts += part
    return bytes(parts)
