"""A signal ends a command as an error does: what it had half written goes."""

import os
import signal
import subprocess
import sys

import pytest

from recap.core.process.workflow_lock import WORKFLOW_VARIABLE

WRITER = """
import sys, time
from recap.core.files.atomic import atomic_path
from recap.core.process.exit_on_signals import exit_on_signals
with exit_on_signals(), atomic_path(sys.argv[1]) as file:
    try:
        print(file, flush=True)
        time.sleep(60)
    finally:
        print("clearing up", flush=True)
        time.sleep(1)
"""


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signalled_command_leaves_no_half_written_file_also_if_it_is_signalled_again(tmp_path, number, status):
    command = [sys.executable, "-c", WRITER, str(tmp_path / "result")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, WORKFLOW_VARIABLE: "a job's"}
    )
    assert process.stdout.readline().strip().endswith(".part")
    process.send_signal(number)
    assert process.stdout.readline() == "clearing up\n"
    process.terminate()
    assert process.wait(20) == status
    assert list(tmp_path.iterdir()) == []


READER = """
import threading
from contextlib import closing
from recap.core.process.bounded import bounded
from recap.core.process.exit_on_signals import exit_on_signals
from recap.features.prefetch import prefetch
def read():
    print("reading", flush=True)
    threading.Event().wait()
with exit_on_signals(), closing(prefetch(bounded(read, 60) for _ in range(9))) as items:
    list(items)
"""


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signalled_command_does_not_wait_for_a_read_that_never_ends(number, status):
    environment = {**os.environ, WORKFLOW_VARIABLE: "a job's"}
    process = subprocess.Popen([sys.executable, "-c", READER], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout.readline() == "reading\n"
    process.send_signal(number)
    assert process.wait(20) == status
