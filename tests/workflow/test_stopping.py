"""Killed, told to end, or begun twice:
a workflow of two jobs, with what the real one does about it."""

import os
import signal
import subprocess
import sys
import time

import pytest

from helpers.tiny_workspace import ROOT

SNAKEFILE = """
import os
import sys

sys.path.insert(0, {root!r})
import recap.core.process
from recap.core.log import configure
from workflow.stopping import job_prefix, lock_folder, stop_with_jobs

configure()
if "NO_SETPRIV" in os.environ:
    recap.core.process.shutil.which = lambda name: None
shell.prefix(job_prefix())


onstart:
    lock_folder("out")
    stop_with_jobs()


rule second:
    input:
        "out/first",
    output:
        "out/second",
    shell:
        "cp {{input}} {{output}}"


rule first:
    output:
        "out/first",
    params:
        long="a command of many words " * 100,
    shell:
        "{{sys.executable:q}} job.py {{output}} {{params.long:q}}"
"""
# Works until a file says that it may finish;
# saves and leaves when it is told to end, as a training does.
JOB = """
import os, sys, time
from pathlib import Path
from recap.core.process import GracefulStop
part = Path(f"out/.first.{os.getpid():08}.part")
with GracefulStop("first") as stop:
    part.write_text("half")
    while not Path("finish").exists():
        if stop.received:
            Path("ended").write_text("")
            sys.exit(143)
        time.sleep(0.05)
    part.rename("out/first")
"""


class Two:
    """A folder with the workflow of two jobs."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "Snakefile").write_text(SNAKEFILE.format(root=str(ROOT)))
        (folder / "job.py").write_text(JOB)

    def start(self, *arguments):
        command = [sys.executable, "-m", "snakemake", "--cores", "1", "--rerun-incomplete"]
        command += ["--nolock", "--logger", "recap", *arguments]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def at_work(self):
        """Start, and wait until the first job has half written its file."""
        process = self.start()
        end = time.monotonic() + 60
        while not list(self.folder.glob("out/.first.*.part")):
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        return process

    def finish(self):
        (self.folder / "finish").write_text("")
        process = self.start()
        said = process.communicate(timeout=120)[1]
        assert process.returncode == 0, said
        assert {file.name for file in (self.folder / "out").iterdir()} == {"first", "second"}
        return said


@pytest.fixture
def two(tmp_path):
    return Two(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("system", ["with setpriv", "without setpriv"])
def test_a_killed_workflow_takes_its_jobs_along_and_the_same_command_finishes(
    two, system, monkeypatch
):
    if system == "without setpriv":
        monkeypatch.setenv("NO_SETPRIV", "yes")
    killed = two.at_work()
    killed.kill()
    killed.wait()
    end = time.monotonic() + 20
    while not (two.folder / "ended").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    said = two.finish()
    assert "the previous workflow was killed" in said
    assert "was killed" not in two.finish()


@pytest.mark.slow
def test_two_folders_whose_results_are_one_place_have_one_workflow_at_a_time(two, tmp_path_factory):
    living = two.at_work()
    other = Two(tmp_path_factory.mktemp("other"))
    (other.folder / "out").symlink_to(two.folder / "out")
    refused = other.start()
    said = refused.communicate(timeout=60)[1]
    assert (
        refused.returncode == 1 and "the folder out is in use" in said and "Traceback" not in said
    )
    (two.folder / "finish").write_text("")
    assert living.wait(120) == 0
    other.finish()


@pytest.mark.slow
def test_a_living_workflow_is_left_alone(two):
    living = two.at_work()
    refused = two.start()
    said = refused.communicate(timeout=60)[1]
    assert refused.returncode == 1
    assert (
        f"another workflow is running here (process {living.pid}); wait for it, or stop it" in said
    )
    assert "Traceback" not in said
    dry = two.start("--dry-run")
    assert dry.wait(60) == 0
    assert not (two.folder / "ended").exists()
    (two.folder / "finish").write_text("")
    assert living.wait(60) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("send", "number", "name"),
    [
        (os.kill, signal.SIGTERM, "SIGTERM"),
        (os.kill, signal.SIGINT, "Ctrl-C"),
        (os.killpg, signal.SIGINT, "Ctrl-C"),
    ],
)
def test_a_signal_ends_jobs_and_workflow_in_one_sentence(two, send, number, name):
    process = two.at_work()
    start = time.monotonic()
    send(process.pid, number)
    said = process.communicate(timeout=60)[1]
    assert time.monotonic() - start < 20
    assert process.returncode not in (0, -signal.SIGTERM, -signal.SIGINT)
    assert (two.folder / "ended").exists()
    assert not (two.folder / "out" / "second").exists()
    last = said.split("recap: ", 1)[1]
    assert last.startswith(f"stopped by {name}: running jobs save their state and end")
    assert len(last.splitlines()) == 1
    two.finish()


@pytest.mark.slow
def test_a_second_signal_kills_jobs_that_do_not_hear_the_first(two):
    job = two.folder / "job.py"
    job.write_text(
        job.read_text().replace(
            "if stop.received:", "if stop.received:\n            time.sleep(600)"
        )
    )
    process = two.at_work()
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode not in (0, -signal.SIGINT)
    assert "recap: second signal: running jobs are killed" in said


def test_files_that_killed_jobs_had_begun_are_removed_and_no_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # It keeps the lock while its process lives.
    code = "import sys; from workflow.stopping import lock_folder; lock_folder('a', 'none')"
    begun = [
        tmp_path / "a" / ".corpus.parquet.12345678.part",
        tmp_path / "a" / "b" / ".mlflow.db.12345678.part",
    ]
    begun.append(begun[1].with_name(f"{begun[1].name}-journal"))
    others = [
        tmp_path / "a" / "images.zip.part",
        tmp_path / "a" / "b" / ".lock",
        tmp_path / ".other.12345678.part",
    ]
    for file in begun + others:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True
    )
    assert [file for file in begun + others if file.exists()] == others
