"""Optimizers and learning-rate schedules, as plain functions of step, epoch and drops."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from recap.nn.fast import fast
from recap.settings import (
    CosineSchedule,
    NoamSchedule,
    PlateauSchedule,
    Schedule,
    Stage,
    StepSchedule,
    StepThenPlateauSchedule,
    TableSchedule,
)
from recap.training.radam import RAdam

BETTER = 1e-4  # part of the best score by which a score must be above it to end a plateau, as torch's `threshold`


def learning_rate(schedule: Schedule, *, step: int, epoch: int, lr_drops: int, d_model: int, steps: int) -> float:
    """Return the rate of one step.

    noam:     factor * D^-0.5 * min(step^-0.5, step * warmup^-1.5)   (Vaswani et al. 2017, Eq. 3)
    step:     learning_rate * factor^(epoch // step_size)
    plateau:  learning_rate * factor^lr_drops
    step_then_plateau: learning_rate * factor^(min(epoch, plateau_from - 1) // step_size) * plateau_factor^lr_drops
    cosine:   learning_rate * (1 + cos(pi * (step - 1) / steps)) / 2
    table:    the entry of the last epoch that is not after this one
    constant: learning_rate
    All but noam rise linearly over the first `warmup` steps. Steps count from 1, epochs from 0.
    """
    if isinstance(schedule, NoamSchedule):
        return float(schedule.factor * d_model**-0.5 * min(step**-0.5, step * schedule.warmup**-1.5))
    warm = min(1.0, step / schedule.warmup) if schedule.warmup else 1.0
    if isinstance(schedule, TableSchedule):
        return float(warm * schedule.table[max(start for start in schedule.table if start <= epoch)])
    if isinstance(schedule, StepSchedule):
        return float(warm * schedule.learning_rate * schedule.factor ** (epoch // schedule.step_size))
    if isinstance(schedule, PlateauSchedule):
        return float(warm * schedule.learning_rate * schedule.factor**lr_drops)
    if isinstance(schedule, StepThenPlateauSchedule):
        first = schedule.factor ** (min(epoch, schedule.plateau_from - 1) // schedule.step_size)
        return float(warm * schedule.learning_rate * first * schedule.plateau_factor**lr_drops)
    if isinstance(schedule, CosineSchedule):
        return float(warm * schedule.learning_rate * (1 + math.cos(math.pi * (step - 1) / steps)) / 2)
    return warm * schedule.learning_rate


def set_rate(optimizer: torch.optim.Optimizer, schedule: Schedule, **at: int) -> float:
    """Set the rate of the next step; `at` is where the training is, as `learning_rate` takes it."""
    rate = learning_rate(schedule, **at)
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate


def plateaus(schedule: Schedule, scores: Iterable[tuple[int, float]]) -> int:
    """Return how many plateaus were met, as torch's ReduceLROnPlateau counts, by epoch (from 1) and validation score.

    Of `step_then_plateau` only epochs after the step decay count.
    """
    if not isinstance(schedule, PlateauSchedule | StepThenPlateauSchedule):
        return 0
    first = schedule.plateau_from if isinstance(schedule, StepThenPlateauSchedule) else 0
    best, since, met = -math.inf, 0, 0
    for epoch, score in scores:
        if score > best * (1 + BETTER):
            best, since = score, 0
        elif epoch > first:
            since += 1
        if since > schedule.patience:
            met, since = met + 1, 0
    return met


def build_optimizer(parameters: Iterable[nn.Parameter], stage: Stage) -> torch.optim.Optimizer:
    """Build the stage's optimizer; its rate is set before every step."""
    plain_radam = stage.optimizer == "radam" and not fast()
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "radam": RAdam}
    return (torch.optim.RAdam if plain_radam else kinds[stage.optimizer])(
        parameters,
        lr=0.0,
        betas=stage.betas,
        eps=stage.epsilon,
        weight_decay=stage.weight_decay,
        **({} if plain_radam else {"fused": True}),  # torch's RAdam has no fused form
    )


def clip_gradients(parameters: Iterable[nn.Parameter], stage: Stage) -> Tensor:
    """Clip by global norm, then by value, whichever the stage asks for; return the norm before."""
    parameters = list(parameters)
    if stage.clip_norm is not None:
        norm = nn.utils.clip_grad_norm_(parameters, stage.clip_norm)
    else:
        norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    if stage.clip_value is not None:
        # On a CPU one pass over a gradient, where `foreach` takes two; on a GPU few launches, of many tensors each.
        on_cpu = all(parameter.device.type == "cpu" for parameter in parameters)
        nn.utils.clip_grad_value_(parameters, stage.clip_value, foreach=False if on_cpu else None)
    return norm


def finite_loss(loss: Tensor, norm: Tensor, step: int) -> float:
    """Return the loss of a step, in one wait for a GPU; a lost number of loss or gradient is a FloatingPointError."""
    value, size = torch.stack([loss.detach().double(), norm.double()]).tolist()
    for name, number in (("loss", value), ("gradient's norm", size)):
        if not math.isfinite(number):
            raise FloatingPointError(f"the {name} of step {step} is {number}")
    return float(value)
