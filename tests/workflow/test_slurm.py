"""Jobs on a real Slurm of two nodes on this machine:
limits, GPUs, and the tables of a whole profile."""

import itertools
import json
import shutil
import subprocess

import pytest
import yaml
from workflow.stopping import PREFIX

from helpers.slurm_workflow import snakemake
from helpers.tiny_workspace import ROOT, Workspace

pytestmark = [pytest.mark.slurm, pytest.mark.slow, pytest.mark.timeout(2700)]


def test_the_profile_names_jobs_as_the_next_workflow_looks_for_them():
    profile = yaml.safe_load((ROOT / "profiles" / "slurm" / "config.yaml").read_text())
    assert profile["slurm-jobname-prefix"] == PREFIX


def test_a_job_over_its_memory_gets_more_and_each_gpu_has_one_job(small):
    process = small.start("limits")
    said = process.communicate(timeout=1800)[1]
    assert process.returncode == 0, said
    # The second attempt has the memory that the job takes.
    attempts = (small.folder / "attempts").read_text().split()
    assert len(attempts) == 2
    (killed,) = small.folder.glob(f".snakemake/slurm_logs/**/{attempts[0]}.log")
    assert "exceeded memory limit" in killed.read_text()
    limits = [
        small.cluster.said("squeue", "-h", "--states=all", "-j", each, "-o", "%T %m").split()
        for each in attempts
    ]
    assert [memory for _, memory in limits] == ["1000M", "2000M"] and limits[-1][0] == "COMPLETED"
    jobs = [json.loads((small.folder / "out" / f"gpu-{number}").read_text()) for number in range(3)]
    assert {job["gpu"] for job in jobs} == {"0", "1"}
    for one, two in itertools.combinations(jobs, 2):
        assert one["gpu"] != two["gpu"] or one["end"] <= two["start"] or two["end"] <= one["start"]


def test_jobs_share_a_gpu_by_shards(small):
    targets = [f"out/gpu-{number}" for number in range(3)]
    process = small.start(*targets, "--set-resources", "gpu:gpu=0", "gpu:gres=shard:1")
    said = process.communicate(timeout=1800)[1]
    assert process.returncode == 0, said
    jobs = [json.loads((small.folder / target).read_text()) for target in targets]
    pairs = itertools.combinations(jobs, 2)
    assert any(
        one["gpu"] == two["gpu"] and one["start"] < two["end"] and two["start"] < one["end"]
        for one, two in pairs
    )
    assert {job["gpu"] for job in jobs} <= {"0", "1"}


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
    kept = [file for file in files if file.is_file() and file.name != "SHA256SUMS"]
    return {str(file.relative_to(folder)): without_origin(file) for file in kept}


def test_the_tables_of_a_cluster_are_those_of_one_machine(tmp_path, cluster):
    local, remote = Workspace(tmp_path / "local"), Workspace(tmp_path / "remote")
    done = local.snakemake()
    assert done.returncode == 0, done.stderr[-4000:]
    words = ["--snakefile", str(ROOT / "Snakefile"), "--configfile", "params/tiny.yaml"]
    run = subprocess.run(
        snakemake(*words),
        cwd=remote.folder,
        env=cluster.environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    one, two = results_of(local.folder), results_of(remote.folder)
    assert len(one) > 30 and one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []
    assert (
        shutil.which("sbatch", path=cluster.environment["PATH"])
        and (remote.folder / ".snakemake/slurm_logs").is_dir()
    )
