"""Every registered kind trains in every precision
that a recipe may ask for, and as a GPU's autocast computes it."""

from contextlib import nullcontext

import pytest
import torch
from torch.nn.functional import gelu
from torch.overrides import TorchFunctionMode

from helpers.model_cases import (
    BOS,
    EOS,
    B,
    C,
    T,
    built,
    cases,
    changed,
    random_images,
    random_tokens,
    single,
    still,
)
from recap.core.device import mixed
from recap.nn import fast
from recap.papers.xlan import model as xlan
from recap.settings import CrossEntropy, SelfCritical
from recap.training.batches import Batch
from recap.training.objectives import CrossEntropyObjective, SelfCriticalObjective

EXAMPLES = [pytest.param(still(config), id=name) for name, config in cases() if name == config.kind]
# What autocast gives in float32 on a GPU, and leaves in bf16 on a CPU.
IN_FLOAT32 = {"group_norm", "layer_norm", "native_layer_norm", "softmax", "log_softmax"}
IN_FLOAT32 |= {
    "cumsum",
    "exp",
    "log",
    "logsumexp",
    "pow",
    "prod",
    "reciprocal",
    "rsqrt",
    "softplus",
    "sum",
}


class AsOnAGpu(TorchFunctionMode):
    """Casts the inputs of some functions to float32, as autocast does on a GPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if (
            function.__name__ in IN_FLOAT32
            and "out" not in kwargs
            and torch.is_autocast_enabled("cpu")
        ):
            args = [
                x.float() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
                for x in args
            ]
        return function(*args, **kwargs)


class WithoutKinks(TorchFunctionMode):
    """Takes GELU for ReLU: at its kink a hidden unit near 0
    that is rounded has another gradient, up to 50 % here."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function.__name__ in ("relu", "relu_"):
            return gelu(args[0])
        return function(*args, **(kwargs or {}))


def cross_entropy(model, tokens, draws):
    return CrossEntropyObjective(model, CrossEntropy(epochs=1, learning_rate=0.1))


def self_critical(model, tokens, draws):
    """Return the objective, which draws in every precision,
    and whose samples are those of the first."""
    references = {image: [row[1:-1].tolist() for row in tokens[image]] for image in range(B)}
    stage = SelfCritical(epochs=1, learning_rate=0.1, samples=3)
    objective = SelfCriticalObjective(model, stage, references=references, max_length=T)
    draw = objective.draw

    def drawn(memory):
        draws.append(draw(memory))
        return draws[0]

    objective.draw = drawn
    return objective


def gradients(config, stage, kinks=nullcontext):
    """Return the loss and the gradient by parameter
    of one step in float32, in bf16, and in bf16 as on a GPU."""
    model = built(config).float()
    begin, end = torch.full((B, C, 1), BOS), torch.full((B, C, 1), EOS)
    batch = Batch.of(
        [*range(B)],
        changed(random_images(config), single),
        torch.cat([begin, random_tokens(), end], -1),
    )
    draws, found = [], []
    for precision, processor in (
        ("float32", nullcontext),
        ("bf16", nullcontext),
        ("bf16", AsOnAGpu),
    ):
        torch.manual_seed(0)
        model.zero_grad()
        with kinks(), processor(), mixed(precision, torch.device("cpu")):
            loss = stage(model, batch.tokens, draws)(batch, 0).loss
            loss.backward()
        found.append(
            (
                loss.item(),
                {name: p.grad for name, p in model.named_parameters() if p.grad is not None},
            )
        )
        assert {gradient.dtype for gradient in found[-1][1].values()} == {torch.float32}
    return found


def whole(gradient):
    return torch.cat([part.flatten() for part in gradient.values()])


@pytest.mark.parametrize("config", EXAMPLES)
@pytest.mark.parametrize("stage", [cross_entropy, self_critical])
@pytest.mark.parametrize(
    "enabled", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["fast", "plain"]
)
def test_a_step_in_bf16_is_one_in_float32_up_to_rounding(config, stage, enabled, monkeypatch):
    monkeypatch.setattr(fast, "_enabled", enabled)
    (expected, exact), *rounded = gradients(config, stage)
    gradient = whole(exact)
    assert gradient.norm() > 0
    for loss, others in rounded:  # at sizes so small the rounding of products is not averaged out
        other = whole(others)
        assert loss == pytest.approx(expected, rel=0.03)
        assert other.norm().item() == pytest.approx(gradient.norm().item(), rel=0.03)
        assert (other - gradient).norm() < 0.1 * gradient.norm()


@pytest.mark.parametrize("config", EXAMPLES)
@pytest.mark.parametrize("stage", [cross_entropy, self_critical])
@pytest.mark.parametrize(
    "enabled", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["fast", "plain"]
)
def test_no_tensor_has_another_gradient_in_bf16(config, stage, enabled, monkeypatch):
    monkeypatch.setattr(fast, "_enabled", enabled)
    # ReLU's kink is in the gradient by hand of its pooling
    monkeypatch.setattr(xlan, "fast", lambda: False)
    (_, exact), *rounded = gradients(config, stage, WithoutKinks)
    size = float(whole(exact).norm())
    for _, others in rounded:
        for name, gradient in exact.items():
            # A key's bias adds the same to all scores of a softmax:
            # its gradient is 0 but for rounding.
            norm = max(float(gradient.norm()), 5e-3 * size)
            assert float((others[name] - gradient).norm()) < 0.15 * norm, name
