"""Schedules, clipping and the optimiser factory."""

import pytest
import torch

from helpers.operators import Operators
from recap.settings.recipes import (
    ConstantSchedule,
    CosineSchedule,
    CrossEntropy,
    PlateauSchedule,
    StepSchedule,
    TableSchedule,
)
from recap.training.optim import RAdam, build_optimizer, clip_gradients, learning_rate

CONSTANT = ConstantSchedule(learning_rate=0.1, warmup=4)
STEPS = StepSchedule(learning_rate=0.1, factor=0.5, step_size=2)
PLATEAU = PlateauSchedule(learning_rate=0.1, factor=0.1, patience=3)
COSINE = CosineSchedule(learning_rate=0.2, warmup=2)
TABLE = TableSchedule(table={0: 0.3, 2: 0.2})


@pytest.mark.parametrize(
    ("schedule", "name", "values", "expected"),
    [
        (CONSTANT, "step", (1, 2, 4, 9), [0.025, 0.05, 0.1, 0.1]),
        (STEPS, "epoch", range(5), [0.1, 0.1, 0.05, 0.05, 0.025]),
        (PLATEAU, "lr_drops", range(3), [0.1, 0.01, 0.001]),
        (
            COSINE,
            "step",
            (1, 26, 51, 76, 101),
            [0.1, 0.2 * (2 + 2**0.5) / 4, 0.1, 0.2 * (2 - 2**0.5) / 4, 0.0],
        ),
        (TABLE, "epoch", range(4), [0.3, 0.3, 0.2, 0.2]),
    ],
)
def test_rates_of_schedules(schedule, name, values, expected):
    begin = {"step": 1, "epoch": 0, "lr_drops": 0, "d_model": 64, "steps": 100}
    assert [learning_rate(schedule, **begin | {name: value}) for value in values] == pytest.approx(
        expected
    )


def test_a_rate_in_place_of_a_schedule_is_a_constant_one():
    assert stage().schedule == ConstantSchedule(learning_rate=0.1)
    assert "learning_rate" not in stage().model_dump()


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


def test_clipping_by_value_passes_over_a_gradient_once():
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.zeros(7)) for _ in range(3)]
    for weight in weights[:2]:  # the last has no gradient
        weight.grad = torch.randn(7)
    expected = [weight.grad.clamp(-0.1, 0.1) for weight in weights[:2]]
    with Operators() as called:
        clip_gradients(weights, stage(clip_norm=None, clip_value=0.1))
    assert [name for name in called.names if "clamp" in name] == ["aten.clamp_.default"] * 2
    assert all(
        torch.equal(weight.grad, right) for weight, right in zip(weights, expected, strict=False)
    )


def test_optimisers(monkeypatch):
    parameters = [torch.nn.Parameter(torch.zeros(1))]
    assert isinstance(build_optimizer(parameters, stage()), torch.optim.Adam)
    built = build_optimizer(
        parameters, stage(optimizer="adamw", weight_decay=0.01, betas=(0.8, 0.9))
    )
    assert isinstance(built, torch.optim.AdamW)
    assert built.defaults["betas"] == (0.8, 0.9)
    assert built.defaults["weight_decay"] == 0.01
    for fast, kind in ((True, RAdam), (False, torch.optim.RAdam)):
        monkeypatch.setattr("recap.nn.fast._enabled", fast)
        assert type(build_optimizer(parameters, stage(optimizer="radam"))) is kind


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-13), (torch.float32, 1e-6)])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_radam_takes_the_steps_of_torchs(dtype, atol, weight_decay):
    torch.manual_seed(0)
    ours, theirs = (torch.nn.Parameter(torch.linspace(-1, 1, 50, dtype=dtype)) for _ in range(2))
    numbers = {"betas": (0.9, 0.98), "eps": 1e-6, "weight_decay": weight_decay}
    built = RAdam([ours], lr=0.0, fused=True, **numbers)
    torchs = torch.optim.RAdam([theirs], lr=0.0, **numbers)
    for step in range(1, 13):  # the second moment is trusted from the sixth step on
        gradient = torch.randn(50, dtype=dtype) * 10.0 ** torch.linspace(-6, 1, 50, dtype=dtype)
        for weight, optimizer in ((ours, built), (theirs, torchs)):
            optimizer.param_groups[0]["lr"] = 0.01 * step
            weight.grad = gradient.clone()
            optimizer.step()
        torch.testing.assert_close(ours, theirs, atol=atol, rtol=0)
        assert built.param_groups[0]["lr"] == 0.01 * step
        again = RAdam([ours], lr=0.0, fused=True, **numbers)  # as after a kill
        again.load_state_dict(built.state_dict())
        built = again
