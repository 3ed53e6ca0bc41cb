"""Jobs of a rehearsal that are forks of one process: they behave as commands of their own."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from recap.rehearsal.warm import warm_jobs

pytestmark = pytest.mark.slow
RECAP = [sys.executable, "-P", "-m", "recap"]


@pytest.fixture(scope="module")
def warm():
    """The environment of jobs that are forked."""
    with warm_jobs(os.environ) as more:
        yield {**os.environ, **more}


@pytest.mark.parametrize("words", [["--version"], ["params", "list"], ["nonsense"], ["data", "fetch", "--list", "no"]])
def test_a_fork_prints_and_exits_as_a_command_of_its_own(warm, words, tmp_path):
    forked, own = (
        subprocess.run([*RECAP, *words], env=environment, cwd=tmp_path, capture_output=True, text=True)
        for environment in (warm, os.environ)
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (own.returncode, own.stdout, own.stderr)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_job_ends_when_its_command_is_stopped_or_killed(warm, number, status, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listed = tmp_path / "list.csv"
        listed.write_text(
            "name,version,role,url,algorithm,hash,bytes,licence,checked_on,note,archive,members\n"
            f"a.bin,1,primary,http://127.0.0.1:{listener.getsockname()[1]}/a.bin,,,,own,,,,\n"
        )
        command = subprocess.Popen([*RECAP, "data", "fetch", "a.bin", "--list", listed, "--into", tmp_path], env=warm)
        listener.settimeout(60)
        job, _ = listener.accept()  # which waits for an answer
        with job:
            job.settimeout(60)
            command.send_signal(number)
            while job.recv(1000):
                pass
        assert command.wait(60) == status


def test_without_its_process_no_command_runs(tmp_path):
    with warm_jobs(os.environ) as more:
        environment = {**os.environ, **more}
    done = subprocess.run([*RECAP, "--version"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and not done.stdout
