"""A job ends with its workflow, and a workflow begins when the jobs of the one before it have ended."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recap.core.process import WORKFLOW_VARIABLE, running_workflow

# A workflow: locks the folder, starts one job if a command is given, and prints whether the previous one was killed.
WORKFLOW = """
import subprocess, sys, time
from pathlib import Path
from recap.core.errors import RecapError
from recap.core.log import configure
from recap.core.process import lock_workflow
configure()
try:
    print("killed before" if lock_workflow(Path(sys.argv[1])) else "first", flush=True)
except RecapError as error:
    sys.exit(str(error))
if sys.argv[3:]:
    subprocess.Popen([sys.executable, "-c", *sys.argv[3:]])
time.sleep(float(sys.argv[2]))
"""
# A job: clears up behind itself, also when it is told to end.
JOB = """
import sys, time
from pathlib import Path
from recap.core.process import exit_on_signals
from recap.core.process import exit_with_workflow
with exit_on_signals():
    try:
        exit_with_workflow()
        Path(sys.argv[1]).write_text("at work")
        time.sleep(60)
    finally:
        time.sleep(float(sys.argv[2]))
        Path(sys.argv[1]).write_text("cleared up")
"""


def start(folder, seconds, *job):
    command = [sys.executable, "-c", WORKFLOW, str(folder), str(seconds), *map(str, job)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def becomes(file, text):
    end = time.monotonic() + 20
    while not (file.exists() and file.read_text() == text):
        assert time.monotonic() < end, f"{file} is not {text!r}"
        time.sleep(0.05)


@pytest.fixture
def killed(tmp_path):
    """A workflow that was killed while a job of it was at work; the job needs two seconds to clear up."""
    workflow = start(tmp_path / "at_work", 60, JOB, tmp_path / "job", 2)
    becomes(tmp_path / "job", "at work")
    workflow.kill()
    workflow.wait()
    return tmp_path


def test_a_job_of_a_killed_workflow_clears_up_and_ends(killed):
    becomes(killed / "job", "cleared up")


def test_the_next_workflow_waits_for_the_jobs_of_the_killed_one(killed):
    then = start(killed / "at_work", 0)
    assert then.wait(30) == 0
    assert (killed / "job").read_text() == "cleared up"
    assert then.stdout.read() == "killed before\n"
    assert "(a job of the killed workflow is still ending) is in use" in then.stderr.read()


def test_a_second_workflow_is_refused_in_one_sentence_and_the_first_goes_on(tmp_path):
    first = start(tmp_path, 30)
    assert first.stdout.readline() == "first\n"
    second = start(tmp_path, 0)
    assert second.wait(30) == 1
    sentence = f"another workflow is running here (process {first.pid}); wait for it, or stop it"
    assert second.stderr.read().strip() == f"{Path.cwd()}: {sentence}"
    assert first.poll() is None
    assert running_workflow(tmp_path) == str(first.pid)
    first.terminate()
    first.wait()


def test_a_workflow_that_ended_by_itself_leaves_nothing_behind(tmp_path):
    assert running_workflow(tmp_path) is None
    for _ in range(2):
        workflow = start(tmp_path, 0)
        assert workflow.wait(30) == 0
        assert workflow.stdout.read() == "first\n"
        assert running_workflow(tmp_path) is None


def test_a_job_that_starts_under_the_next_workflow_ends(tmp_path):
    workflow = start(tmp_path, 30)
    workflow.stdout.readline()
    environment = {**os.environ, WORKFLOW_VARIABLE: f"another {socket.gethostname()} {tmp_path}"}
    job = subprocess.run([sys.executable, "-c", JOB, str(tmp_path / "job"), "0"], env=environment, timeout=20)
    assert job.returncode == 128 + signal.SIGTERM
    workflow.kill()
    workflow.wait()
