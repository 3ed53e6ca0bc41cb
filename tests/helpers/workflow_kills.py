"""Kills a real workflow, up to the scores of one row, at random times.

The same command goes on until its end.
"""

import os
import random
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from helpers.tiny_workspace import Workspace

# Who is told to end by a signal that can be heard;
# the others get SIGKILL: Snakemake, a job, or all processes.
POLITE = ("sigterm", "sigint", "sigint group")
EARLY = 0.1  # share of the kills that may come while Snakemake still makes up its mind
SECONDS_TO_END = 120  # after a polite signal; a training of minutes would take longer
SAVED_LINES = 12  # of messages after a polite signal
NO_JOB = "no job"
# It holds the hash of a file with seconds in it.
TIMED = "SHA256SUMS"


@dataclass
class Killed:
    """One kill and what came of it."""

    kind: str
    after: float  # seconds since the start
    jobs: str  # commands that were running
    status: int
    ended: float  # seconds until Snakemake was gone
    said: list[str]  # lines on standard error after the kill


class Killing(Workspace):
    """A folder in which the tiny workflow runs, and is killed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.change("recipes/short.yaml", "epochs: 1", "epochs: 3")
        recipe = folder / "params" / "recipes" / "short.yaml"
        table = folder / "params" / "tables" / "tiny.yaml"
        recipe.write_text(recipe.read_text() + "execution: {checkpoint_minutes: 1.0e-9}\n")
        table.write_text(
            "".join(line for line in table.read_text().splitlines(True) if "zodiac" not in line)
        )

    def start(self) -> subprocess.Popen:
        """Type the command; what it says goes to a file, for nothing reads a pipe of orphans."""
        self.log = self.folder / "said.txt"
        with self.log.open("a") as log:
            return subprocess.Popen(
                self.command("evaluate_all"),
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def said(self) -> str:
        return self.log.read_text()

    def kill(self, kind: str, after: float) -> Killed | None:
        """Run the command and strike some seconds after its first job began.

        None if it had finished by then.
        """
        process = self.start()
        begun = time.monotonic()
        if random.random() > EARLY:
            while process.poll() is None and not at_work(psutil.Process(process.pid))[1]:
                time.sleep(0.1)
        try:
            status = process.wait(after)
        except subprocess.TimeoutExpired:
            return self._strike(kind, process, time.monotonic() - begun)
        assert status == 0, self.said()
        return None

    def _strike(self, kind: str, process: subprocess.Popen, after: float) -> Killed:  # noqa: C901
        snakemake = psutil.Process(process.pid)
        below, recap = at_work(snakemake)
        while kind == "job" and not recap and process.poll() is None:
            below, recap = at_work(snakemake)
        jobs = running(recap)
        before = len(self.said())
        struck = time.monotonic()
        if kind in ("snakemake", "all"):
            victims = [snakemake, *(below if kind == "all" else [])]
        else:
            victims = recap[:1] if kind == "job" else []
        for victim in victims:
            if victim.is_running():
                victim.kill()
        if kind == "sigterm":
            process.terminate()
        if kind == "sigint":
            process.send_signal(signal.SIGINT)
        if kind == "sigint group":
            os.killpg(process.pid, signal.SIGINT)
        try:
            status = process.wait(300 if kind == "job" else SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            left = running(at_work(snakemake)[1])
            raise AssertionError(
                f"{kind} during {jobs}: {left} still runs; {self.said()[before:]}"
            ) from None
        said = [line for line in self.said()[before:].splitlines() if line.strip()]
        return Killed(kind, after, jobs, status, time.monotonic() - struck, said)


def orphans(folder: Path) -> list[str]:
    """Return the commands that are still at work in a folder."""
    result = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder):
                result.append(" ".join(process.cmdline())[:100])
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return result


def leftovers(folder: Path) -> list[str]:
    """Return half-written files."""
    return [str(file) for file in folder.rglob(".*.part*")]


def results(folder: Path) -> dict[str, bytes]:
    """Return all files for a reader and all results by name,
    without the seconds that a training took."""
    files = [
        file
        for top in ("results", "reports")
        for file in (folder / top).rglob("*")
        if file.is_file()
    ]
    return {
        str(file.relative_to(folder)): steady(file)
        for file in files
        if not file.name.endswith(TIMED)
    }


def at_work(snakemake: psutil.Process) -> tuple[list[psutil.Process], list[psutil.Process]]:
    """Return all processes below Snakemake, and the `recap` commands among them."""
    try:
        below = snakemake.children(recursive=True)
    except psutil.NoSuchProcess:
        below = []
    return below, [each for each in below if "recap" in command_line(each)]


def command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def running(processes: list[psutil.Process]) -> str:
    """Name the commands that were running, e.g. ``train, features extract``."""
    lines = [line for line in map(command_line, processes) if "recap" in line]
    words = [
        [word for word in line[line.index("recap") + 1 :] if not word.startswith("logs/")]
        for line in lines
    ]
    names = {" ".join(each[:3]).removeprefix("--log-file ").split(" --")[0] for each in words}
    return ", ".join(sorted(names)) or NO_JOB


def steady(file: Path) -> bytes:
    """Return a file's bytes; of the two that say how long a training took, without that."""
    text = file.read_bytes()
    if file.name == "training.json":
        return b"\n".join(line for line in text.splitlines() if b"seconds" not in line)
    if file.name == "history.csv":
        lines = [line.split(b",") for line in text.splitlines()]
        column = lines[0].index(b"seconds")
        return b"\n".join(b",".join(line[:column] + line[column + 1 :]) for line in lines)
    return text


def polite(killed: Killed) -> None:
    """Check that a signal that can be heard ends Snakemake in a sentence."""
    assert killed.status not in (0, -signal.SIGINT), killed
    text = "\n".join(killed.said)
    assert "recap: stopped by" in text, killed
    assert (
        "Traceback" not in text and "RuleException" not in text and "CalledProcessError" not in text
    ), text
    assert len(killed.said) <= SAVED_LINES and max(map(len, killed.said)) < 400, text


def kill_until_finished(folder: Path, kinds: list[str], longest: float) -> list[Killed]:
    """Kill a new workflow in a folder, once a kind and each time after at most so many seconds.

    Then let it finish.
    """
    workflow = Killing(folder)
    kills = []
    while kinds:
        killed = workflow.kill(kinds[0], random.uniform(0.0, longest))
        if "--unlock" in workflow.said():
            raise AssertionError(workflow.said())
        if killed is None:
            break
        kinds.pop(0)
        kills.append(killed)
        print(killed, flush=True)
        if killed.kind in POLITE and killed.jobs != NO_JOB:
            polite(killed)
    process = workflow.start()
    assert process.wait(600) == 0, workflow.said()
    assert orphans(folder) == []
    assert leftovers(folder) == []
    return kills


def undisturbed(folder: Path) -> tuple[dict[str, bytes], float]:
    """Run the workflow once; return its results and how many seconds it took."""
    workflow = Killing(folder)
    begun = time.monotonic()
    process = workflow.start()
    assert process.wait(900) == 0, workflow.said()
    return results(folder), time.monotonic() - begun


def same(result: dict[str, bytes], expected: dict[str, bytes]) -> None:
    """Check that two runs left the same files with the same bytes."""
    assert sorted(result) == sorted(expected)
    assert [name for name in expected if result[name] != expected[name]] == []
