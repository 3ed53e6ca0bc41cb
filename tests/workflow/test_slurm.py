"""Jobs on a real Slurm of two nodes on this machine: limits, GPUs, cancelled jobs, a lost node, a killed workflow."""

import itertools
import json
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest
import yaml
from workflow.cluster import PREFIX

from helpers.slurm_cluster import Cluster, missing
from helpers.tiny_workspace import ROOT, Workspace

pytestmark = [pytest.mark.slurm, pytest.mark.slow, pytest.mark.timeout(1200)]

SNAKEFILE = """
import sys

sys.path.insert(0, {root!r})
from recap.core.log import configure
from workflow.cluster import cancel_left_jobs, stop_with_cluster
from workflow.folder_lock import lock_folder

configure()


onstart:
    lock_folder(["out"])
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
"""
JOB = """
import json, os, sys, time
what, out = sys.argv[1:]
start = time.time()
held = bytearray(os.urandom(1)) * 1200_000_000 if what == "grow" else b""
time.sleep(8)
found = {"start": start, "end": time.time(), "gpu": os.environ.get("CUDA_VISIBLE_DEVICES"), "held": len(held)}
open(out, "w").write(json.dumps(found))
"""
LONG = {"epochs": 40, "learning_rate": 0.005, "images_per_batch": 2}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A Slurm that runs while the tests of this file do."""
    if reason := missing():
        pytest.skip(reason)
    made = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


class Small:
    """A folder with a workflow of a few jobs, which run on the cluster by the project's profile."""

    def __init__(self, folder, cluster):
        self.folder, self.cluster = folder, cluster
        (folder / "Snakefile").write_text(SNAKEFILE.format(root=str(ROOT)))
        (folder / "job.py").write_text(JOB)

    def start(self, target):
        return subprocess.Popen(
            [*snakemake(target), "--rerun-incomplete", "--nolock", "--logger", "recap"],
            cwd=self.folder,
            env=self.cluster.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def mine(self, *states):
        """Return the numbers of the jobs of this folder that are in one of the states, or in the queue."""
        chosen = [f"--states={','.join(states)}"] if states else []
        lines = self.cluster.said("squeue", "-h", *chosen, "-o", "%A|%Z").splitlines()
        return [number for number, _, folder in (line.partition("|") for line in lines) if folder == str(self.folder)]


def snakemake(*arguments):
    """Return the command of a workflow on the cluster; it asks for states often, and squeue in place of sacct."""
    profile = ["--profile", str(ROOT / "profiles" / "slurm"), "--slurm-status-command", "squeue"]
    quick = ["--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "10"]
    return [sys.executable, "-m", "snakemake", *arguments, *profile, *quick]


@pytest.fixture
def small(tmp_path, cluster):
    return Small(tmp_path, cluster)


def test_the_profile_names_jobs_as_the_next_workflow_looks_for_them():
    profile = yaml.safe_load((ROOT / "profiles" / "slurm" / "config.yaml").read_text())
    assert profile["slurm-jobname-prefix"] == PREFIX


def test_a_job_over_its_memory_gets_more_and_each_gpu_has_one_job(small):
    process = small.start("limits")
    said = process.communicate(timeout=900)[1]
    assert process.returncode == 0, said
    # The second attempt has the memory that the job takes.
    attempts = (small.folder / "attempts").read_text().split()
    assert len(attempts) == 2
    (killed,) = small.folder.glob(f".snakemake/slurm_logs/**/{attempts[0]}.log")
    assert "exceeded memory limit" in killed.read_text()
    limits = [
        small.cluster.said("squeue", "-h", "--states=all", "-j", each, "-o", "%T %m").split() for each in attempts
    ]
    assert [memory for _, memory in limits] == ["1000M", "2000M"] and limits[-1][0] == "COMPLETED"
    jobs = [json.loads((small.folder / "out" / f"gpu-{number}").read_text()) for number in range(3)]
    assert {job["gpu"] for job in jobs} == {"0", "1"}
    for one, two in itertools.combinations(jobs, 2):
        assert one["gpu"] != two["gpu"] or one["end"] <= two["start"] or two["end"] <= one["start"]


@pytest.fixture(scope="module")
def prepared(prepare):
    made = prepare()
    done = made.train("unbroken", stage_settings=LONG)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture
def training(small, prepared, request):
    """A small workflow whose job trains, with the name of the training."""
    name = request.node.name.translate(str.maketrans("[]", "__"))
    command = shlex.join(prepared.command(name, stage_settings=LONG))
    (small.folder / "train.sh").write_text(f"exec 2>>said; exec {command}\n")
    small.state, small.run = prepared.folder / name / "state", prepared.folder / name / "run"
    small.unbroken = prepared.folder / "unbroken" / "run" / "model.safetensors"
    return small


def at_work(small, process):
    """Wait until the training has saved some of its work, but not all."""
    end = time.monotonic() + 300
    while not (small.state / "last.pt").exists():
        assert process.poll() is None and time.monotonic() < end, process.communicate()[1]
        time.sleep(0.05)
    assert not small.run.exists()


def ends_as_unbroken(small, process):
    said = process.communicate(timeout=900)[1]
    assert process.returncode == 0, said
    assert "continuing at epoch" in (small.folder / "said").read_text()
    assert (small.run / "model.safetensors").read_bytes() == small.unbroken.read_bytes()


def test_a_cancelled_training_saves_and_its_next_attempt_ends_with_the_same_bytes(training):
    process = training.start("trained")
    at_work(training, process)
    training.cluster.said("scancel", *training.mine("RUNNING"))
    ends_as_unbroken(training, process)
    assert "stopped by SIGTERM" in (training.folder / "said").read_text()


def test_a_training_of_a_lost_node_ends_with_the_same_bytes_when_the_node_is_back(training):
    process = training.start("trained")
    at_work(training, process)
    training.cluster.kill_node("n1")
    end = time.monotonic() + 120
    while training.mine("RUNNING"):
        assert time.monotonic() < end
        time.sleep(1)
    training.cluster.start_node("n1")
    ends_as_unbroken(training, process)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=lambda how: how.name)
def test_a_stopped_workflow_goes_on_where_its_job_was_and_never_runs_it_twice(training, how):
    first = training.start("trained")
    at_work(training, first)
    first.send_signal(how)
    first.communicate(timeout=120)
    assert first.returncode != 0
    second = training.start("trained")
    while second.poll() is None and not training.run.exists():
        assert len(training.mine("RUNNING", "COMPLETING")) <= 1
        time.sleep(0.5)
    ends_as_unbroken(training, second)
    said = (training.folder / "said").read_text()
    assert "is in use" not in said and said.count("continuing at epoch") == 1


def without_origin(file):
    """Return the content of a file without the commit and the seconds that a training notes."""
    if file.name == "training.json":
        values = json.loads(file.read_text())
        return {key: value for key, value in values.items() if key not in ("git_commit", "seconds")}
    if file.name == "history.csv":
        heading, *rows = file.read_text().splitlines()
        assert heading.endswith(",seconds")
        return [row.rpartition(",")[0] for row in rows]
    return file.read_bytes()


def results_of(folder):
    """Return the files of the results and of the tables that do not say when they were made."""
    files = [*folder.glob("results/tiny/**/*"), *folder.glob("reports/tiny/tables/*")]
    kept = [file for file in files if file.is_file() and file.name not in (".provenance.json", "SHA256SUMS")]
    return {str(file.relative_to(folder)): without_origin(file) for file in kept}


def test_the_tables_of_a_cluster_are_those_of_one_machine(tmp_path, cluster):
    local, remote = Workspace(tmp_path / "local"), Workspace(tmp_path / "remote")
    done = local.snakemake()
    assert done.returncode == 0, done.stderr[-4000:]
    words = ["--snakefile", str(ROOT / "Snakefile"), "--configfile", "params/tiny.yaml"]
    run = subprocess.run(snakemake(*words), cwd=remote.folder, env=cluster.environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]
    one, two = results_of(local.folder), results_of(remote.folder)
    assert len(one) > 30 and one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []
    assert (
        shutil.which("sbatch", path=cluster.environment["PATH"]) and (remote.folder / ".snakemake/slurm_logs").is_dir()
    )
