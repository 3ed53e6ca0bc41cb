"""What jobs ask a cluster for, and which jobs a workflow takes for its own. No Slurm is needed."""

import re

from workflow.stopping import jobs_here

JOB = "recap_0a1b2c3d-4e5f-6789-abcd-ef0123456789"  # as the plugin names them


def test_a_partition_on_the_command_line_leaves_the_signal_before_the_limit(workspace):
    words = ("train_xe:slurm_partition=gpu", "train_scst:slurm_partition=gpu", "features:slurm_partition=gpu")
    said = workspace.dry_run("--verbose", "--set-resources", *words)
    asked = re.findall(r"^ +resources: (.*slurm_partition=gpu.*)$", said, re.MULTILINE)
    assert len(asked) == 4  # two trainings, one second stage, one store
    assert all("slurm_extra=--signal=TERM@180" in each for each in asked)


def test_a_users_own_job_in_the_folder_is_not_one_of_the_workflow(tmp_path, monkeypatch):
    lines = [f"1|{JOB}|{tmp_path}", f"2|recap_main.sh|{tmp_path}", f"3|{JOB}|/elsewhere", f"4|{JOB}.sh|{tmp_path}"]
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    assert jobs_here() == ["1"]
