"""Schedules, clipping and the optimiser factory."""

import pytest
import torch
from pydantic import ValidationError

from recap.core.config import CrossEntropy, Schedule
from recap.training.optim import build_optimizer, clip_gradients, learning_rate


def rate(schedule, *, step=1, epoch=0, drops=0):
    return learning_rate(schedule, 0.1, step=step, epoch=epoch, drops=drops, d_model=64)


def test_constant_with_warm_up():
    schedule = Schedule(warmup=4)
    assert [rate(schedule, step=s) for s in (1, 2, 4, 9)] == pytest.approx([0.025, 0.05, 0.1, 0.1])


def test_step_drops_every_few_epochs():
    schedule = Schedule(kind="step", factor=0.5, every=2)
    assert [rate(schedule, epoch=e) for e in range(5)] == pytest.approx([0.1, 0.1, 0.05, 0.05, 0.025])


def test_plateau_follows_its_drops():
    schedule = Schedule(kind="plateau", factor=0.1)
    assert [rate(schedule, drops=d) for d in range(3)] == pytest.approx([0.1, 0.01, 0.001])


def test_table_holds_until_the_next_entry():
    schedule = Schedule(kind="table", table={0: 0.3, 2: 0.2})
    assert [rate(schedule, epoch=e) for e in range(4)] == [0.3, 0.3, 0.2, 0.2]


@pytest.mark.parametrize("wrong", [{"kind": "table"}, {"kind": "table", "table": {1: 0.1}}, {"kind": "noam"}])
def test_incomplete_schedules_are_refused(wrong):
    with pytest.raises(ValidationError):
        Schedule(**wrong)


def stage(**changes):
    return CrossEntropy(epochs=1, learning_rate=0.1, **changes)


def test_clipping():
    weight = torch.nn.Parameter(torch.zeros(4))
    weight.grad = torch.tensor([3.0, 4.0, 0.0, 0.0])
    clip_gradients([weight], stage(clip_norm=1.0, clip_value=0.7))
    torch.testing.assert_close(weight.grad, torch.tensor([0.6, 0.7, 0.0, 0.0]), atol=1e-5, rtol=0)
    weight.grad = torch.tensor([3.0, 4.0, 0.0, 0.0])
    clip_gradients([weight], stage(clip_norm=None, clip_value=None))
    assert weight.grad.tolist() == [3.0, 4.0, 0.0, 0.0]


def test_optimisers():
    parameters = [torch.nn.Parameter(torch.zeros(1))]
    assert type(build_optimizer(parameters, stage())) is torch.optim.Adam
    built = build_optimizer(parameters, stage(optimizer="adamw", weight_decay=0.01, betas=(0.8, 0.9)))
    assert type(built) is torch.optim.AdamW
    assert built.defaults["betas"] == (0.8, 0.9)
    assert built.defaults["weight_decay"] == 0.01
    assert type(build_optimizer(parameters, stage(optimizer="radam"))) is torch.optim.RAdam
