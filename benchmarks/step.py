"""A training step of ours beside the released way of it,
and the time that its products alone would take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from benchmarks.figures import Case, product_rate
from benchmarks.shapes import batch
from recap.measure.steps import Operations
from recap.models.base import Captioner
from recap.settings import CrossEntropy, Stage
from recap.training.objectives import CrossEntropyObjective
from recap.training.optim import build_optimizer, clip_gradients

Step = Callable[[], None]
Model = TypeVar("Model", bound=Captioner)


def learner(
    model: Captioner, optimizer: torch.optim.Optimizer, stage: Stage, loss: Callable[[], Tensor]
) -> Step:
    """Return a whole training step of the middle of a training,
    when RAdam trusts its second moment."""
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()  # makes the moments; nothing moves
    for group in optimizer.param_groups:
        group["steps"] = 1000  # our RAdam's count
    for state in optimizer.state.values():
        state["step"].fill_(1000)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        clip_gradients(model.parameters(), stage)
        optimizer.step()

    return step


def plain_learner(model: Captioner, stage: Stage, loss: Callable[[], Tensor]) -> Step:
    """Return the released way of a step:
    torch's dropout and torch's optimizer, tensor after tensor."""
    optimizer = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "radam": torch.optim.RAdam}[
        stage.optimizer
    ](
        model.parameters(),
        lr=stage.schedule.learning_rate,
        betas=stage.betas,
        eps=stage.epsilon,
        weight_decay=stage.weight_decay,
    )
    return learner(model, optimizer, stage, loss)


def without_dropout(model: Captioner) -> Captioner:
    """Let nothing drop out of a model, in whatever mode an objective sets it."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def floor(step: Step) -> dict[str, object]:
    """Return the operations of a step, and the seconds
    that they would take at the rate of a large product."""
    with Operations() as counted:
        step()
    flops, rate = counted.total, product_rate()
    return {
        "gflop": round(flops / 1e9),
        "gflop_per_s": round(rate / 1e9),
        "floor_seconds": round(flops / rate / torch.get_num_threads(), 3),
    }


def cross_entropy(
    name: str,
    shapes: str,
    stage: CrossEntropy,
    model_of: Callable[[], Model],
    plain_loss: Callable[[Model], Tensor],
) -> Case:
    """Compare forward, backward, clipping and optimizer of 50 captions of 7 to 16 words, with
    dropout.

    Args:
        name: of the figure.
        shapes: what it is measured on.
        stage: the recipe, as far as it costs time.
        model_of: makes a model, with the same weights at each call.
        plain_loss: the released way of the loss.
    """
    model, slow = model_of(), model_of()
    data, objective = batch(), CrossEntropyObjective(model, stage)
    with torch.no_grad():
        exact = CrossEntropyObjective(without_dropout(model_of()), stage)(data).loss
        slow.eval()
        difference = abs(exact - plain_loss(slow)).item()
    step = learner(
        model, build_optimizer(model.parameters(), stage), stage, lambda: objective(data).loss
    )
    slow.train()
    reference = plain_learner(slow, stage, lambda: plain_loss(slow))
    agreement = f"losses without dropout differ by {difference:.1e}"
    return Case(name, shapes, step, reference, agreement, lambda: floor(step))
