"""A process: one job per GPU (names without devices),
signals, and jobs that end with their workflow."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.refusals import refused
from recap.core.errors import RecapError
from recap.core.log import FAILURES_VARIABLE, failure_file
from recap.core.process import (
    SHARED,
    VISIBLE,
    WORKFLOW_VARIABLE,
    GracefulStop,
    acquire_gpus,
    devices,
    exit_without_workflow,
)

JOB = """
import os, sys, time
from recap.core.process import acquire_gpus
from recap.core.log import configure
configure()
acquire_gpus(sys.argv[1], int(sys.argv[2]))
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def job(tmp_path):
    """Start jobs of a workflow on a machine with four GPUs; all end with the test."""
    started = []
    named = {WORKFLOW_VARIABLE: f"1 {socket.gethostname()} {tmp_path}", VISIBLE: "a,b,c,d"}

    def start(number=1, device="cuda", **variables):
        command = [sys.executable, "-c", JOB, device, str(number)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        started.append(
            subprocess.Popen(command, env={**os.environ, **named, **variables}, text=True, **pipes)
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def sees(process):
    return process.stdout.readline().strip()


def test_four_jobs_see_four_gpus_and_a_fifth_waits_for_the_one_that_is_killed(job):
    four = [job() for _ in range(4)]
    seen = [sees(process) for process in four]
    assert sorted(seen) == ["a", "b", "c", "d"]
    fifth = job()
    assert (
        fifth.stderr.readline()
        == "all 4 places on GPUs are taken by jobs of this workflow: waiting for 1\n"
    )
    four[2].kill()
    assert sees(fifth) == seen[2]


def test_two_jobs_share_each_gpu_where_the_profile_says_so(job):
    shared = {SHARED: "2", VISIBLE: "a,b"}
    assert [sees(job(**shared)) for _ in range(3)] == ["a", "b", "a"]
    pair = job(2, **shared)  # its processes are on two GPUs, and one of these has no place left
    assert "all 4 places" in pair.stderr.readline()
    assert sees(job(**shared)) == "b"


def test_several_processes_of_one_training_take_several_gpus_or_none(job):
    one = job()
    sees(one)
    assert sees(job(2)) == "b,c"
    pair = job(2)
    assert "waiting for 2" in pair.stderr.readline()
    assert sees(job()) == "d"  # the pair keeps none while it waits for two
    one.kill()


def test_a_job_on_the_cpu_takes_none_and_more_processes_than_gpus_are_refused(
    job, monkeypatch, tmp_path
):
    assert sees(job(device="cpu")) == "a,b,c,d"
    monkeypatch.setenv(WORKFLOW_VARIABLE, f"1 {socket.gethostname()} {tmp_path}")
    monkeypatch.setenv(VISIBLE, "a,b")
    with refused(RecapError, "3 processes", "2;", "`processes`"):
        acquire_gpus("auto", 3)


@pytest.mark.parametrize(
    "names, found", [("0,1", 2), ("GPU-8a3f", 1), ("", 0), ("-1", 0), ("0,-1,1", 1)]
)
def test_what_the_user_hides_is_not_counted(monkeypatch, names, found):
    monkeypatch.setenv(VISIBLE, names)
    assert len(devices()) == found


@pytest.mark.parametrize("job", ["", "7"])
def test_without_a_workflow_and_in_a_job_of_slurm_the_gpus_that_were_given_stay(
    monkeypatch, tmp_path, job
):
    """Jobs of one workflow may see one GPU each, those that Slurm gave them.

    A lock on the first would be for all.
    """
    monkeypatch.setenv("SLURM_JOB_ID", job)
    monkeypatch.setenv(VISIBLE, "2,3")
    monkeypatch.delenv(WORKFLOW_VARIABLE, raising=False)
    if job:
        monkeypatch.setenv(WORKFLOW_VARIABLE, f"1 {socket.gethostname()} {tmp_path}")
    acquire_gpus("cuda")
    assert os.environ[VISIBLE] == "2,3" and list(tmp_path.iterdir()) == []


STOPPED = """
import os, signal, sys
from recap.core.log import configure
from recap.core.process import GracefulStop
configure()
with GracefulStop("job") as stop:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.raise_signal(number)
    print(stop.received, flush=True)
    raise stop.exit("the state is saved")
"""


def test_a_signal_sets_a_flag_and_the_loop_leaves_and_the_workflow_is_told_why(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", STOPPED],
        env={**os.environ, FAILURES_VARIABLE: str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        143,
        "15\n",
        "job: stopped by SIGTERM; the state is saved\n",
    )
    reason = failure_file(tmp_path, []).read_text()
    assert reason == "stopped by SIGTERM; the state is saved"


def test_a_part_may_be_interrupted_also_by_an_earlier_signal_and_no_handler_outlives_its_work():
    before = signal.getsignal(signal.SIGINT)  # a process in the background of a shell ignores it
    with pytest.raises(SystemExit, match="130"), GracefulStop("job") as stop, stop.interruptible():
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("it went on")
    with pytest.raises(SystemExit, match="143"), GracefulStop("job") as stop:
        signal.raise_signal(signal.SIGTERM)
        with stop.interruptible():
            raise AssertionError("it began")
    assert signal.getsignal(signal.SIGINT) is before


# A workflow: locks the folder, and prints whether the previous one was killed.
WORKFLOW = """
import sys, time
from pathlib import Path
from recap.core.errors import RecapError
from recap.core.process import lock_workflow
try:
    print("killed before" if lock_workflow(Path(sys.argv[1])) else "first", flush=True)
except RecapError as error:
    sys.exit(str(error))
time.sleep(float(sys.argv[2]))
"""


def start(folder, seconds):
    command = [sys.executable, "-c", WORKFLOW, str(folder), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_one_workflow_holds_a_folder_and_the_next_knows_whether_it_was_killed(tmp_path):
    for _ in range(2):  # one that ends by itself leaves nothing behind
        assert start(tmp_path, 0).communicate(timeout=60) == ("first\n", "")
    first = start(tmp_path, 60)
    assert first.stdout.readline() == "first\n"
    second = start(tmp_path, 0)
    sentence = f"another workflow is running here (process {first.pid}); wait for it, or stop it"
    assert (
        second.communicate(timeout=60)[1].strip() == f"{Path.cwd()}: {sentence}"
        and second.returncode == 1
    )
    first.kill()
    first.wait()
    assert start(tmp_path, 0).communicate(timeout=60) == ("killed before\n", "")


def test_a_job_whose_workflow_is_gone_when_it_starts_ends(tmp_path, monkeypatch):
    gone = subprocess.Popen(["true"])
    monkeypatch.setenv(WORKFLOW_VARIABLE, f"{os.getpid()} {socket.gethostname()} {tmp_path}")
    exit_without_workflow()
    gone.wait()
    monkeypatch.setenv(WORKFLOW_VARIABLE, f"{gone.pid} {socket.gethostname()} {tmp_path}")
    with pytest.raises(SystemExit, match="143"):
        exit_without_workflow()
