"""Two processes over gloo give the weights of one."""

import os
import subprocess
import sys

import pytest
import torch

from helpers.distributed_worker import CONFIG, train
from helpers.training import CAPTIONS, Store
from recap.models.images import InputSpec
from recap.models.registry import build_model
from recap.settings import CrossEntropy
from recap.settings.models import model_configs
from recap.training.distributed import Group
from recap.training.validation import validator

WORKER = "helpers.distributed_worker"


def torchrun(*arguments):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", WORKER]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=200, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return train(tmp_path_factory.mktemp("alone"))


def same(weights, expected, atol):
    for name, value in expected.items():
        torch.testing.assert_close(weights[name], value, atol=atol, rtol=0)


@pytest.mark.slow
def test_two_processes_equal_one_also_with_an_empty_shard_and_after_a_restart(tmp_path, alone):
    torchrun(tmp_path, 1)
    torchrun(tmp_path, 2)  # continues after the first epoch
    first, second = (torch.load(tmp_path / f"rank-{rank}-of-2.pt", weights_only=True) for rank in (0, 1))
    same(first, second, 0)
    same(first, alone.model.state_dict(), 1e-5)
    state = torch.load(tmp_path / "last.pt", weights_only=True)
    for line, other in zip(state["counters"]["history"], alone.progress.history, strict=True):
        assert line["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert line["val_cider_d"] == pytest.approx(other["val_cider_d"], abs=1e-6)
        assert line["target_id"] == pytest.approx(other["target_id"], rel=1e-12)
    assert alone.progress.history[-1]["val_cider_d"] > 0
    assert len(state["random"]["cpu"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", model_configs())
def test_two_processes_equal_one_for_every_kind_of_model(tmp_path, kind):
    torchrun(tmp_path / "two", 1, kind)
    expected = train(tmp_path / "one", 1, kind).model.state_dict()
    for rank in (0, 1):
        same(torch.load(tmp_path / "two" / f"rank-{rank}-of-2.pt", weights_only=True), expected, 1e-5)


def test_validation_parts_sum_to_the_whole_also_with_an_empty_shard():
    torch.manual_seed(0)
    model = build_model(CONFIG, InputSpec.of(5, 9))
    stage = CrossEntropy(epochs=1, learning_rate=0.01, validation_beam=2)
    two = {image: CAPTIONS[image] for image in (0, 1)}

    def part(rank, size):
        return validator(model, stage, Store(), two, 4, Group(rank, size), "worker")()

    assert part(0, 3) + part(1, 3) == pytest.approx(part(0, 1))
    assert part(2, 3) == 0.0


def test_shards_are_disjoint_and_whole():
    items = list(range(7))
    shards = [Group(rank, 3).shard(items) for rank in range(3)]
    assert sorted(sum(shards, [])) == items
    assert Group(1, 2).shard([5]) == []
    assert Group().shard(items) == items
