"""Small workflows on the cluster of `helpers.slurm_cluster`,
whose jobs train or take memory and GPUs."""

import shlex
import subprocess
import sys
import time

from helpers.tiny_workspace import ROOT

SNAKEFILE = """
import sys

sys.path.insert(0, {root!r})
from recap.core.log import configure
from workflow.load import STOPPED_BEFORE_LIMIT
from workflow.stopping import cancel_left_jobs, lock_folder, stop_with_cluster

configure()


onstart:
    lock_folder("out")
    cancel_left_jobs()
    stop_with_cluster()


rule limits:
    localrule: True
    input:
        expand("out/gpu-{{number}}", number=range(3)),
        "out/grown",


rule grown:
    output:
        "out/grown",
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        slurm_partition="cpu",
    shell:
        "echo $SLURM_JOB_ID >> attempts; exec {{sys.executable:q}} job.py grow {{output}}"


rule gpu:
    output:
        "out/gpu-{{number}}",
    resources:
        mem_mb=1500,
        gpu=1,
        slurm_partition="gpu",
    shell:
        "exec {{sys.executable:q}} job.py gpu {{output}}"


rule trained:
    output:
        "out/trained",
    resources:
        mem_mb=3000,
        slurm_partition="cpu",
    shell:
        "bash train.sh && touch {{output}}"


use rule trained as train_xe with:
    output:
        "out/limited",
    resources:
        **STOPPED_BEFORE_LIMIT,
        mem_mb=3000,
"""
JOB = """
import json, os, sys, time
what, out = sys.argv[1:]
start = time.time()
held = bytearray(os.urandom(1)) * 1200_000_000 if what == "grow" else b""
time.sleep(8)
gpu = os.environ.get("CUDA_VISIBLE_DEVICES")
found = {"start": start, "end": time.time(), "gpu": gpu, "held": len(held)}
open(out, "w").write(json.dumps(found))
"""
LONG = {"epochs": 40, "learning_rate": 0.005, "images_per_batch": 2}


class Small:
    """A folder with a workflow of a few jobs, which run on the cluster by the project's profile."""

    def __init__(self, folder, cluster):
        self.folder, self.cluster = folder, cluster
        folder.mkdir(exist_ok=True)
        (folder / "Snakefile").write_text(SNAKEFILE.format(root=str(ROOT)))
        (folder / "job.py").write_text(JOB)

    def start(self, *target):
        return subprocess.Popen(
            [*snakemake(*target), "--rerun-incomplete", "--nolock", "--logger", "recap"],
            cwd=self.folder,
            env=self.cluster.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def jobs(self):
        """Return the numbers of the jobs of this folder, ended ones among them."""
        return self.mine("all")

    def mine(self, *states):
        """Return the numbers of the jobs of this folder
        that are in one of the states, or in the queue."""
        chosen = [f"--states={','.join(states)}"] if states else []
        lines = self.cluster.said("squeue", "-h", *chosen, "-o", "%A|%Z").splitlines()
        return [
            number
            for number, _, folder in (line.partition("|") for line in lines)
            if folder == str(self.folder)
        ]


def snakemake(*arguments):
    """Return the command of a workflow on the cluster.

    It asks for states often, and squeue in place of sacct.
    """
    profile = ["--profile", str(ROOT / "profiles" / "slurm"), "--slurm-status-command", "squeue"]
    quick = ["--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "10"]
    return [sys.executable, "-m", "snakemake", *arguments, *profile, *quick]


def trains(small, prepared, name, unbroken="unbroken", **changes):
    """Let the job of a small workflow train, with the name of the training.

    It is to end as an unbroken one.
    """
    command = shlex.join(prepared.command(name, **{"stage_settings": LONG, **changes}))
    (small.folder / "train.sh").write_text(f"exec 2>>said; exec {command}\n")
    small.state, small.run = prepared.folder / name / "state", prepared.folder / name / "run"
    small.unbroken = prepared.folder / unbroken / "run" / "model.safetensors"
    return small


def at_work(small, process):
    """Wait until the training has saved some of its work, but not all."""
    end = time.monotonic() + 300
    while not (small.state / "last.pt").exists():
        assert process.poll() is None and time.monotonic() < end, process.communicate()[1]
        time.sleep(0.05)
    assert not small.run.exists()


def ends_as_unbroken(small, process):
    """Wait for a workflow whose training was interrupted at least once."""
    output = process.communicate(timeout=1800)[1]
    assert process.returncode == 0, output
    assert "continuing at epoch" in (small.folder / "said").read_text()
    assert (small.run / "model.safetensors").read_bytes() == small.unbroken.read_bytes()
