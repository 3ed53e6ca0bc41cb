"""What rules and jobs share: logs, links to a cache,
plans that jobs on a cluster take, and their names there."""

import base64
import json
import os
import re
import stat
from pathlib import Path

import pytest
from workflow.internals import FORMAT
from workflow.linked_files import make_writable, restore_times
from workflow.stopping import jobs_here

from helpers.tiny_workspace import ROOT, Workspace
from recap.core.documents import read_mapping
from recap.plan import source
from recap.plan.job import Jobs
from recap.plan.jobs import plan_jobs
from recap.plan.profiles import load_plan
from recap.settings.datasets import DATASETS
from workflow import load


def test_links_to_the_cache_become_writable_and_a_new_file_leaves_the_cache_alone(tmp_path):
    cached, result = tmp_path / "cache", tmp_path / "results" / "a" / "file"
    cached.write_text("old")
    cached.chmod(0o444)
    result.parent.mkdir(parents=True)
    result.hardlink_to(cached)
    (result.parent / "link").symlink_to(cached)
    (result.parent / "own").write_text("own")
    make_writable([tmp_path / "results", tmp_path / "none"])
    assert result.stat().st_mode & stat.S_IWUSR
    new = result.with_name("new")
    new.write_text("new")
    new.replace(result)
    assert (cached.read_text(), result.read_text()) == ("old", "new")


@pytest.mark.parametrize(
    ("written", "within_dvc", "found"), [(50, False, 100), (150, False, 150), (150, True, 100)]
)
def test_what_dvc_copied_or_linked_gets_the_time_of_its_job(
    tmp_path, monkeypatch, written, within_dvc, found
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_STAGE", raising=False)
    if within_dvc:
        monkeypatch.setenv("DVC_STAGE", "train@mine")
    file = Path("results/a/file")
    file.parent.mkdir(parents=True)
    file.write_text("x")
    record = Path(".snakemake/metadata", base64.urlsafe_b64encode(str(file).encode()).decode())
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"record_format_version": FORMAT, "endtime": 100.0}))
    os.utime(file, (written, written))
    restore_times(["results"])
    assert file.stat().st_mtime == found


def test_a_job_has_the_runs_and_digests_of_the_process_that_planned_them(tmp_path, monkeypatch):
    monkeypatch.chdir(Workspace(tmp_path).folder)
    monkeypatch.delenv(load.VARIABLE, raising=False)
    assert load.load_pickled_plan() is None
    plan = load_plan(read_mapping(tmp_path / "params" / "tiny.yaml"))
    monkeypatch.setenv(load.VARIABLE, "")  # restored after the test
    job = ("somewhere:job",), ()
    monkeypatch.setitem(source.DIGESTS, job, "0123456789abcdef")
    none = Jobs([], plan.files)
    load.pickle_plan(load.Planned(plan, plan_jobs(plan), none, {}))
    del source.DIGESTS[job]
    planned = load.load_pickled_plan()
    assert planned.plan.trained == plan.trained and planned.plan.labels() == plan.labels()
    assert list(planned.jobs) == list(plan_jobs(plan)) and not list(planned.acquisitions)
    assert (
        source.code_digest("somewhere:job") == "0123456789abcdef"
    )  # there is no such module to read


def test_the_profile_of_a_cluster_limits_rules_that_there_are():
    rules = " ".join(path.read_text() for path in sorted((ROOT / "workflow/rules").glob("*.smk")))
    names = set(re.findall(r"rule (\w+):", rules) + re.findall(r"use rule \w+ as (\w+)", rules))
    for kind in DATASETS.classes().values():
        with_it = ["with", *(Path(name).stem for name in kind.products)] if kind.products else []
        names.add("_".join(["corpus", *with_it]))
    limits = read_mapping(ROOT / "profiles/slurm/config.yaml")["set-resources"]
    assert set(limits) <= names
    assert {"train_xe", "train_scst", "evaluate", "features", "corpus"} <= set(limits)


JOB = "recap_0a1b2c3d-4e5f-6789-abcd-ef0123456789"  # as the plugin names them


def test_a_partition_on_the_command_line_leaves_the_signal_before_the_limit(workspace):
    words = (
        "train_xe:slurm_partition=gpu",
        "train_scst:slurm_partition=gpu",
        "features:slurm_partition=gpu",
    )
    said = workspace.dry_run("--verbose", "--set-resources", *words)
    asked = re.findall(r"^ +resources: (.*slurm_partition=gpu.*)$", said, re.MULTILINE)
    assert len(asked) == 4  # two trainings, one second stage, one store
    assert all("slurm_extra=--signal=TERM@180" in each for each in asked)


def test_a_users_own_job_in_the_folder_is_not_one_of_the_workflow(tmp_path, monkeypatch):
    lines = [
        f"1|{JOB}|{tmp_path}",
        f"2|recap_main.sh|{tmp_path}",
        f"3|{JOB}|/elsewhere",
        f"4|{JOB}.sh|{tmp_path}",
    ]
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    assert jobs_here() == ["1"]
