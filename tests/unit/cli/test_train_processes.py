"""What `recap train` becomes where a spec wants several processes."""

import os
import sys

import pytest

from recap.cli.train import become_processes
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
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(sys, "argv", ["recap", "train", "--spec", "spec.json"])

    def command(processes, **execution):
        commands = [None]
        monkeypatch.setattr(os, "execvp", lambda file, words: commands.append(words))
        spec = validate(RunSpec, {**SPEC, "processes": processes}, "a spec")
        become_processes(spec, ExecutionFile(device="cpu", **execution))
        return commands[-1]

    return command


def test_several_processes_are_started_by_torchrun_on_this_machine(becomes):
    command = becomes(2)
    assert command[0] == sys.executable and "--standalone" in command
    assert command[command.index("--nproc-per-node") + 1] == "2"
    assert command[-4:] == ["recap", "train", "--spec", "spec.json"]
    assert becomes(1) is None
