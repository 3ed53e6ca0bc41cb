"""A workflow of three quick jobs that keeps its provenance
as the real one does, in a folder that may be cloned."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from helpers.tiny_workspace import ROOT

SNAKEFILE = f"""
import sys
sys.path.append({str(ROOT)!r})
from recap.core.errors import RecapError
from workflow.provenance import ProvenanceStore

IN = config["inputs"]
PROVENANCE = ProvenanceStore(
    folders=["results/data", "results/runs"], single_files=["results/summary.txt"], inputs=IN
)
try:
    PROVENANCE.restore()
except RecapError as error:
    sys.exit(f"recap: {{error}}")

onsuccess:
    PROVENANCE.save()

onerror:
    PROVENANCE.save()

rule all:
    input: expand("results/runs/{{seed}}.txt", seed=config["seeds"]), "results/summary.txt"

rule data:
    input: f"{{IN}}/captions.txt", f"{{IN}}/photos"
    output: "results/data/corpus.txt"
    shell: "cat {{input[0]}} {{IN}}/photos/* > {{output}}; head -c 2000000 /dev/zero >> {{output}}"

rule train:
    input: "results/data/corpus.txt"
    output: "results/runs/{{seed}}.txt"
    params: rate=config["rate"]
    shell: "(cat {{input}}; echo {{params.rate}} {{wildcards.seed}}) > {{output}}"

rule summary:
    input: expand("results/runs/{{seed}}.txt", seed=config["seeds"])
    output: "results/summary.txt"
    shell: "cat {{input}} > {{output}}"
"""


class Toy:
    """A working copy of the toy workflow with a folder of outside files beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "copy"
        self.inputs = folder / "in"
        (self.inputs / "photos").mkdir(parents=True)
        (self.inputs / "captions.txt").write_text("a dog\n")
        (self.inputs / "photos" / "1.jpg").write_text("dog\n")
        self.folder.mkdir()
        (self.folder / "Snakefile").write_text(SNAKEFILE)

    def snakemake(self, *arguments, rate=1, seeds=(1, 2)):
        """Run Snakemake in the copy."""
        config = [f"rate={rate}", f"seeds={list(seeds)}", f"inputs={self.inputs}"]
        command = [
            sys.executable,
            "-m",
            "snakemake",
            "--cores",
            "1",
            *arguments,
            "--config",
            *config,
        ]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True)

    def planned(self, **config):
        """Return which files a dry run would make."""
        done = self.snakemake("--dry-run", "--quiet", "reason", **config)
        assert done.returncode == 0, done.stderr
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        return {line.removeprefix("output: ") for line in lines if line.startswith("output: ")}

    def cloned(self, folder: Path) -> "Toy":
        """Return what a clone with pulled results has:
        all files, with times in the wrong order, and no history."""
        clone = Toy(folder)
        shutil.copytree(
            self.folder / "results", clone.folder / "results", copy_function=shutil.copyfile
        )
        backwards = sorted(clone.folder.rglob("results/**/*"), reverse=True)
        for number, file in enumerate(backwards):
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
        return clone
