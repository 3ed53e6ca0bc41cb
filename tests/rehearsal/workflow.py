"""Calls Snakemake and DVC in a rehearsal's folder, and counts the jobs of a plan."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recap.core.errors import RecapError

PLUGIN = "rehearsal.stand_in"
# Without compiled modules, which some machines tell Python not to keep,
# each job compiles torch again.
_NOT_INHERITED = ("PYTHONDONTWRITEBYTECODE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN")
_PROJECT = (
    "Snakefile",
    "dvc.yaml",
    ".dvcignore",
    ".gitignore",
    ".dvc/config",
    "workflow",
    "profiles",
    "src",
)
_GIT = ("git", "-c", "user.name=rehearsal", "-c", "user.email=rehearsal@localhost")


@dataclass(frozen=True)
class Workflow:
    """The workflow of a profile in the working folder."""

    snakefile: Path  # of the project
    configfile: Path  # the profile's file
    cores: int  # jobs at once
    hub: str  # address that takes the place of the HuggingFace hub

    def run(self) -> None:
        """Run Snakemake; its messages go to standard error."""
        process = subprocess.Popen(self.command(()), stdout=2, env=self.environment())
        try:
            status = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        if status:
            raise RecapError(
                f"the rehearsal failed; the messages above say which job, and {Path.cwd()} has it "
                "all"
            )

    def planned(self) -> Counter[str]:
        """Return how many jobs of each rule are due."""
        command = self.command(("--dry-run",))
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment())
        if done.returncode:
            sys.stderr.write(done.stdout + done.stderr)
            raise RecapError("the rehearsal cannot be planned; the messages above say why")
        counts = job_counts(done.stdout + done.stderr)
        counts.pop("all", None)  # it only gathers what others make
        return counts

    def environment(self) -> dict[str, str]:
        """Return the environment of Snakemake and of its jobs:
        the hub is on this machine, its cache in this folder."""
        inherited = {key: value for key, value in os.environ.items() if key not in _NOT_INHERITED}
        paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **inherited,
            "PYTHONPATH": os.pathsep.join(paths),  # of the stand-ins
            "HF_ENDPOINT": self.hub,
            "HF_HOME": str(Path("huggingface").absolute()),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command that runs Snakemake."""
        command = [sys.executable, "-P", "-m", "snakemake", *words, "--cores", str(self.cores)]
        return [*command, "--snakefile", str(self.snakefile), "--configfile", str(self.configfile)]


def job_counts(said: str) -> Counter[str]:
    """Return how many jobs of each rule a plan of Snakemake lists."""
    _, heading, listed = said.partition("Job stats:")
    lines = listed.split("total")[0].splitlines()[3:] if heading else []
    counts = (re.fullmatch(r"(\S+)\s+(\d+)", line.strip()) for line in lines)
    return Counter({line[1]: int(line[2]) for line in counts if line and line[1] != "total"})


def repro(workflow: Workflow) -> None:
    """Run `dvc repro` in the working folder, a repository of its own.

    Everything in its stages is made already.
    """
    from recap.share.dvc import add_profile

    project = workflow.snakefile.parent
    for place in _PROJECT:
        source, copy = project / place, Path(place)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(
                source, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(source, copy)
    name = add_profile(workflow.configfile, scale=None, inputs=None, fetch=False, conda=False)
    environment = workflow.environment() | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    }
    commands = [[sys.executable, "-P", "-m", "dvc", "repro", "--quiet", f"report@{name}"]]
    if not Path(".git").exists():
        files = ("Snakefile", "dvc.yaml", ".gitignore")
        commands[:0] = [
            [*_GIT, "init", "-q"],
            [*_GIT, "add", *files],
            [*_GIT, "commit", "-q", "-m", name],
        ]
    for command in commands:
        if subprocess.run(command, stdout=2, env=environment).returncode:
            raise RecapError(
                f"the rehearsal ({' '.join(command[-3:])}) failed; the messages above say why"
            )
