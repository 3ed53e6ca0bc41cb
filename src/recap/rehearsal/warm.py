"""Jobs of a rehearsal that share one import of the libraries.

A job on miniatures takes a second or two, of which importing torch and its neighbors takes most. One process imports
them and forks for each job, so that a job still is a process of its own. The command that Snakemake starts
(`recap.core.process.warm_job`) hands its words, folder, environment and open files to the fork, passes SIGTERM on to
it, exits with its status, and ends it if it is killed itself.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import FrameType

from recap.core.process.warm_job import VARIABLE, read_exactly

_IMPORTED = (
    *("torch", "pandas", "pyarrow.parquet", "h5py", "safetensors.torch", "scipy.stats", "matplotlib.pyplot"),
    *("recap.training.job", "recap.evaluation.job", "recap.features.extraction", "recap.metrics.coco"),
)


@contextmanager
def warm_jobs(environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Start the process that jobs are forked from, and yield what the environment of the workflow has in addition.

    It ends with this context, and also if this process is killed: its standard input ends then.
    """
    with tempfile.TemporaryDirectory(prefix="recap-jobs-") as folder:
        place = Path(folder, "jobs")
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,  # Ctrl-C reaches jobs by way of the workflow
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdout.readline()
            yield {VARIABLE: str(place)}
        finally:
            process.stdin.close()
            process.stdout.close()
            process.wait()


def main() -> None:
    """Import the libraries, then fork for each client until standard input ends."""
    _prepare()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, _bury)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if listener not in ready:
                return
            client, _ = listener.accept()
            if not os.fork():
                break
            client.close()
    _serve(client)


def _prepare() -> None:
    """Do once what each job does before its work. No computation: a fork has none of its parent's threads."""
    from torch import zeros
    from torch.optim import Adam

    from recap.models.registry import model_class
    from recap.plan.identities import EVALUATION, TRAINING, job_code
    from recap.settings.models import model_configs

    for name in _IMPORTED:
        import_module(name)
    Adam([zeros(1)])  # torch imports its compiler for the first optimizer
    for kind in model_configs():
        model_class(kind)
        for job in (TRAINING, EVALUATION):
            job_code(job, kind)  # reads the source of both


def _bury(number: int, frame: FrameType | None) -> None:
    """Take notice of jobs that ended; their clients have been told."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _serve(client: socket.socket) -> None:
    """Run the job of a client in this fork; its exit status is the last that the client gets."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, files, _, _ = socket.recv_fds(client, 4, 3)
    asked = json.loads(read_exactly(client, int.from_bytes(length, "big")))
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(asked["environment"])
    del os.environ[VARIABLE]  # commands that the job starts are processes of their own
    os.chdir(asked["folder"])
    sys.argv = ["recap", *asked["words"]]
    status = bytearray([1])  # of a traceback
    atexit.register(lambda: client.sendall(status))  # the first one registered runs last
    threading.Thread(target=_obey, args=(client,), daemon=True).start()
    try:
        runpy.run_module("recap", run_name="__main__")
        status[0] = 0
    except SystemExit as error:
        status[0] = error.code if isinstance(error.code, int) else error.code is not None
        raise


def _obey(client: socket.socket) -> None:
    """Pass on the signals that the client got; without a client end the job."""
    while number := client.recv(1):
        os.kill(os.getpid(), number[0])
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
