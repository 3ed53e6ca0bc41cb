"""What `recap train` becomes where a spec wants several processes."""

import os
import sys

import pytest

from helpers.refusals import refused
from recap.cli.train import become_processes
from recap.core.errors import ConfigError
from recap.settings.params import validate
from recap.settings.recipes import ExecutionFile, RunSpec

SPEC = {
    **dict.fromkeys(("dataset", "subset", "features", "model", "recipe"), "tiny"),
    "stage": "xe",
    "seed": 1,
}
SPEC |= {
    "stage_settings": {"epochs": 1, "learning_rate": 0.1},
    "model_settings": {"kind": "transformer"},
}


@pytest.fixture
def becomes(monkeypatch):
    """Return a function that returns the command that a training becomes, or None."""
    for name in ("WORLD_SIZE", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", ["recap", "train", "--spec", "spec.json"])

    def command(processes, **execution):
        commands = [None]
        monkeypatch.setattr(os, "execvp", lambda file, words: commands.append(words))
        spec = validate(RunSpec, {**SPEC, "processes": processes}, "a spec")
        become_processes(spec, ExecutionFile(device="cpu", **execution))
        return commands[-1]

    return command


def test_several_processes_are_started_by_torchrun_on_this_machine(becomes):
    for nodes in (1, 2):  # outside of Slurm there is one
        command = becomes(2, nodes=nodes)
        assert command[0] == sys.executable and "--standalone" in command
        assert command[command.index("--nproc-per-node") + 1] == "2"
        assert command[-4:] == ["recap", "train", "--spec", "spec.json"]
    assert becomes(1, nodes=2) is None


def test_in_a_job_of_slurm_srun_starts_torchrun_on_each_node(becomes, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    command = becomes(4, nodes=2, threads=3)
    assert command[:4] == ["srun", "--nodes=2", "--ntasks=2", "--cpus-per-task=6"]
    assert {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-id=7"} < set(command)
    assert command[command.index("--nproc-per-node") + 1] == "2"
    assert becomes(1, nodes=2) is None
    with refused(ConfigError, "execution.nodes", "3 nodes", "4 processes"):
        becomes(4, nodes=3)
