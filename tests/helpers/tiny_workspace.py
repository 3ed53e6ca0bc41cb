"""Runs the real workflow in a folder of its own, on parameters that a test may change."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from rehearsal.workflow import job_counts

ROOT = Path(__file__).resolve().parents[2]


class Workspace:
    """A folder with the tiny parameters, in which the repository's Snakefile runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "tests" / "workflow" / "params", folder / "params")

    def change(self, file: str, old: str, new: str) -> None:
        """Replace text in a parameter file; the text must be there."""
        path = self.folder / "params" / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def command(self, *arguments: str, config: tuple[str, ...] = ()) -> list[str]:
        """Return the command that runs Snakemake on the tiny profile.

        ``config`` are KEY=VALUE changes of it.
        """
        command = [sys.executable, "-m", "snakemake", *arguments, "--cores", "2"]
        command += ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(self.folder)]
        command += ["--configfile", str(self.folder / "params" / "tiny.yaml")]
        return [*command, "--config", *config] if config else command

    def snakemake(
        self, *arguments: str, config: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess:
        """Run it."""
        command = self.command(*arguments, config=config)
        return subprocess.run(command, capture_output=True, text=True, cwd=self.folder)

    def dry_run(self, *arguments: str, config: tuple[str, ...] = ()) -> str:
        """Return what a dry run says."""
        done = self.snakemake("--dry-run", *arguments, config=config)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def planned(self, *arguments: str, config: tuple[str, ...] = ()) -> Counter:
        """Return how many jobs of each rule a dry run would run."""
        return counts(self.dry_run(*arguments, config=config))


def counts(plan: str) -> Counter:
    """Return how many jobs of each rule a plan has."""
    assert plan.count("Job stats:") == (0 if "Nothing to be done" in plan else 1), (
        "the plan stands there twice"
    )
    return job_counts(plan)
