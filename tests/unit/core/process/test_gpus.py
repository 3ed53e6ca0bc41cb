"""One job per GPU: four jobs get four GPUs, a fifth waits. The GPUs are names without devices."""

import os
import socket
import subprocess
import sys

import pytest

from helpers.refusals import refused
from recap.core.errors import RecapError
from recap.core.process import VISIBLE, WORKFLOW_VARIABLE, claim, devices

JOB = """
import os, sys, time
from recap.core.process import claim
from recap.core.log import configure
configure()
claim(sys.argv[1], int(sys.argv[2]))
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def job(tmp_path):
    """Start jobs of a workflow on a machine with four GPUs; all end with the test."""
    started = []
    named = {WORKFLOW_VARIABLE: f"name {socket.gethostname()} {tmp_path}", VISIBLE: "a,b,c,d"}

    def start(number=1, device="cuda"):
        command = [sys.executable, "-c", JOB, device, str(number)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        started.append(subprocess.Popen(command, env={**os.environ, **named}, text=True, **pipes))
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
    assert fifth.stderr.readline() == "all 4 GPUs are in use by other jobs of this workflow: waiting for 1\n"
    four[2].kill()
    assert sees(fifth) == seen[2]


def test_several_processes_of_one_training_take_several_gpus_or_none(job):
    one = job()
    sees(one)
    assert sees(job(2)) == "b,c"
    pair = job(2)
    assert "waiting for 2" in pair.stderr.readline()
    assert sees(job()) == "d"  # the pair keeps none while it waits for two
    one.kill()


def test_a_job_on_the_cpu_takes_none(job):
    assert sees(job(device="cpu")) == "a,b,c,d"


def test_more_processes_than_gpus_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv(WORKFLOW_VARIABLE, f"name {socket.gethostname()} {tmp_path}")
    monkeypatch.setenv(VISIBLE, "a,b")
    with refused(RecapError, "3 processes", "2;", "`processes`"):
        claim("auto", 3)


@pytest.mark.parametrize("names, found", [("0,1", 2), ("GPU-8a3f", 1), ("", 0), ("-1", 0), ("0,-1,1", 1)])
def test_what_the_user_hides_is_not_counted(monkeypatch, names, found):
    monkeypatch.setenv(VISIBLE, names)
    assert len(devices()) == found


def test_without_a_workflow_the_users_choice_stays(monkeypatch):
    monkeypatch.delenv(WORKFLOW_VARIABLE, raising=False)
    monkeypatch.setenv(VISIBLE, "2,3")
    claim("cuda")
    assert os.environ[VISIBLE] == "2,3"


def test_a_job_of_slurm_keeps_the_gpus_that_slurm_gave_it(monkeypatch, tmp_path):
    """Two jobs of one workflow have one GPU each; both see theirs alone, so a lock on the first would be for both."""
    monkeypatch.setenv(WORKFLOW_VARIABLE, f"name {socket.gethostname()} {tmp_path}")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv(VISIBLE, "b")
    claim("cuda")
    assert os.environ[VISIBLE] == "b" and list(tmp_path.iterdir()) == []
