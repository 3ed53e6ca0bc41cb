"""Two processes over gloo give the weights of one."""

import os
import subprocess
import sys

import pytest
import torch

from helpers.distributed_worker import CONFIG, train
from helpers.model_cases import build_model
from helpers.training import CAPTIONS, Store
from recap.models.images import InputSpec
from recap.settings import CrossEntropy
from recap.settings.models import MODELS
from recap.training.distributed import Group
from recap.training.run import validator

WORKER = "helpers.distributed_worker"


def torchrun(folder, killed=False, ends=True, **arguments):
    """Return what both processes end with, unless they end with many things.

    What they say if one is killed.
    """
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        WORKER,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    named = [f"{name}={value}" for name, value in arguments.items()]
    done = subprocess.run(
        [*command, str(folder), *named],
        capture_output=True,
        text=True,
        timeout=200,
        env=environment,
    )
    assert (done.returncode != 0) == killed, done.stderr[-2000:]
    if killed:
        return done.stderr
    return both(folder) if ends else []


def both(folder):
    return [torch.load(folder / f"rank-{rank}-of-2.pt", weights_only=True) for rank in (0, 1)]


def alone(folder, **arguments):
    """Return the training of one process, and what it ends with."""
    return train(folder, Group(), **arguments), torch.load(
        folder / "rank-0-of-1.pt", weights_only=True
    )


def same(weights, expected, atol):
    for name, value in expected.items():
        torch.testing.assert_close(weights[name], value, atol=atol, rtol=0)


@pytest.mark.slow
def test_two_processes_equal_one_also_with_an_empty_shard_and_after_a_restart(tmp_path):
    loop, expected = alone(tmp_path / "one")
    torchrun(tmp_path, epochs=1)
    first, second = torchrun(tmp_path, epochs=2)  # continues after the first epoch
    same(first["weights"], second["weights"], 0)
    same(first["weights"], expected["weights"], 1e-5)
    state = torch.load(tmp_path / "last.pt", weights_only=True)
    for line, other in zip(state["counters"]["history"], loop.progress.history, strict=True):
        assert line["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert line["val_cider_d"] == pytest.approx(other["val_cider_d"], abs=1e-6)
        assert line["target_id"] == pytest.approx(other["target_id"], rel=1e-12)
    assert loop.progress.history[-1]["val_cider_d"] > 0
    assert len(state["random"]["cpu"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["xe", "scst"])
def test_two_processes_have_the_gradients_and_weights_of_one_where_sums_are_exact_also_after_a_kill(
    tmp_path, stage
):
    loop, expected = alone(tmp_path / "one", stage=stage, dtype="float64")
    whole = torchrun(tmp_path / "whole", stage=stage, dtype="float64")
    # in the second of four epochs
    torchrun(tmp_path / "killed", killed=True, stage=stage, dtype="float64", die_at=4)
    resumed = torchrun(tmp_path / "killed", stage=stage, dtype="float64")
    for found, again in zip(whole, resumed, strict=True):
        for gradient, other in zip(found["gradients"], expected["gradients"], strict=True):
            torch.testing.assert_close(gradient, other, atol=1e-12, rtol=1e-10)
        # Adam divides what is 0 but for rounding (1e-16)
        # by its epsilon (1e-9): this is why it is not closer.
        same(found["weights"], expected["weights"], 1e-8)
        same(again["weights"], found["weights"], 0)
    history = torch.load(tmp_path / "whole" / "last.pt", weights_only=True)["counters"]["history"]
    assert [line["loss"] for line in history] == pytest.approx(
        [line["loss"] for line in loop.progress.history]
    )


@pytest.mark.slow
def test_two_processes_equal_one_for_every_kind_of_model(tmp_path):
    torchrun(tmp_path / "two", ends=False, epochs=1, kinds=",".join(MODELS.classes()))
    for kind in MODELS.classes():
        expected = alone(tmp_path / "one" / kind, epochs=1, kind=kind)[1]
        for found in both(tmp_path / "two" / kind):
            same(found["weights"], expected["weights"], 1e-5)
            gradient, other = (
                torch.cat([each.flatten() for each in e["gradients"]]) for e in (found, expected)
            )
            assert (gradient - other).norm() <= 1e-6 * other.norm(), kind


@pytest.mark.slow
def test_a_process_that_alone_does_not_compile_stops_both(tmp_path):
    said = torchrun(tmp_path, killed=True, refuses=1)
    assert "the compiled step of one of several processes fails (no such kernel)" in said


def test_validation_parts_sum_to_the_whole_also_with_an_empty_shard():
    torch.manual_seed(0)
    model = build_model(CONFIG, InputSpec({"main": 5}, 9))
    stage = CrossEntropy(epochs=1, learning_rate=0.01, validation_beam=2)
    two = {image: CAPTIONS[image] for image in (0, 1)}

    def part(rank, size):
        return validator(model, stage, Store(), two, 4, None, Group(rank, size), "worker")()

    assert part(0, 3) + part(1, 3) == pytest.approx(part(0, 1))
    assert part(2, 3) == 0.0


def test_shards_are_disjoint_and_whole():
    items = list(range(7))
    shards = [Group(rank, 3).shard(items) for rank in range(3)]
    assert sorted(sum(shards, [])) == items
    assert Group(1, 2).shard([5]) == []
    assert Group().shard(items) == items
