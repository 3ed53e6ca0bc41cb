"""Jobs of a rehearsal that are forks of one process: they behave as commands of their own."""

import os
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


def test_without_its_process_no_command_runs():
    with warm_jobs(os.environ) as more:
        environment = {**os.environ, **more}
    done = subprocess.run([*RECAP, "--version"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and not done.stdout
