"""Learning rates, optimizers, clipping, and the moving average of the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from recap.nn.fast import fast
from recap.settings.recipes import Schedule, Stage

# part of the best score by which a score must be above it to end a plateau, as torch's `threshold`
BETTER = 1e-4
# of the average behind RAdam's second moment, rho_t: the update is rectified above it
TRUSTED_LENGTH = 5.0
OUTWEIGHS = 2.0**60  # E of `RAdam`: a power of two, so that the quotient has the bits of m


def learning_rate(
    schedule: Schedule, *, step: int, epoch: int, lr_drops: int, d_model: int, steps: int
) -> float:
    """Return the rate of one step.

    noam:     factor * D^-0.5 * min(step^-0.5, step * warmup^-1.5)   (Vaswani et al. 2017, Eq. 3)
    step:     learning_rate * factor^(epoch // step_size)
    plateau:  learning_rate * factor^lr_drops
    step_then_plateau:
              learning_rate * factor^(min(epoch, plateau_from - 1) // step_size)
              * plateau_factor^lr_drops
    cosine:   learning_rate * (1 + cos(pi * (step - 1) / steps)) / 2
    table:    the entry of the last epoch that is not after this one
    constant: learning_rate
    All but noam rise linearly over the first `warmup` steps. Steps count from 1, epochs from 0.
    """
    if schedule.kind == "noam":
        return schedule.factor * d_model**-0.5 * min(step**-0.5, step * schedule.warmup**-1.5)
    warm = min(1.0, step / schedule.warmup) if schedule.warmup else 1.0
    if schedule.kind == "table":
        return warm * schedule.table[max(start for start in schedule.table if start <= epoch)]
    rate = warm * schedule.learning_rate
    if schedule.kind == "step":
        return rate * schedule.factor ** (epoch // schedule.step_size)
    if schedule.kind == "plateau":
        return rate * schedule.factor**lr_drops
    if schedule.kind == "step_then_plateau":
        first = schedule.factor ** (min(epoch, schedule.plateau_from - 1) // schedule.step_size)
        return rate * first * schedule.plateau_factor**lr_drops
    if schedule.kind == "cosine":
        return rate * (1 + math.cos(math.pi * (step - 1) / steps)) / 2
    return rate


def plateaus(schedule: Schedule, scores: Iterable[tuple[int, float]]) -> int:
    """Return plateaus met, as torch's ReduceLROnPlateau counts, by epoch (from 1) and score."""
    if schedule.kind != "plateau" and schedule.kind != "step_then_plateau":
        return 0
    # Epochs of the step decay do not count.
    first = schedule.plateau_from if schedule.kind == "step_then_plateau" else 0
    best = -math.inf
    since = met = 0
    for epoch, score in scores:
        if score > best * (1 + BETTER):
            best = score
            since = 0
        elif epoch > first:
            since += 1
        if since > schedule.patience:
            met += 1
            since = 0
    return met


def build_optimizer(parameters: Iterable[nn.Parameter], stage: Stage) -> torch.optim.Optimizer:
    """Build the stage's optimizer; its rate is set before every step."""
    options: dict[str, Any] = {
        "lr": 0.0,
        "betas": stage.betas,
        "eps": stage.epsilon,
        "weight_decay": stage.weight_decay,
    }
    if stage.optimizer == "radam" and not fast():
        return torch.optim.RAdam(parameters, **options)  # which has no fused form
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "radam": RAdam}
    return kinds[stage.optimizer](parameters, **options, fused=True)


class RAdam(torch.optim.Adam):
    """Rectified Adam (Liu et al. 2020), equal to torch's up to rounding,
    in one pass over weights and moments.

    A step of RAdam is one of Adam with another rate and epsilon. With bias corrections c1, c2 of
    the moments m, v and the rectification r:

        RAdam, once v is trusted    lr r (m / c1) sqrt(c2) / (sqrt(v) + eps)
        before (the first steps)    lr (m / c1)
        Adam                        lr' (m / c1) / (sqrt(v / c2) + eps')

    They are equal with lr' = lr r and eps' = eps / sqrt(c2), once v is trusted, and before that
    with lr' = lr E and eps' = E, which outweighs v.

    torch's RAdam makes about ten passes. The state dict holds each group's `steps`.
    """

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step, as `torch.optim.RAdam.step`."""
        plain = [(group["lr"], group["eps"]) for group in self.param_groups]
        for group in self.param_groups:
            step = group["steps"] = group.get("steps", 0) + 1
            beta2 = group["betas"][1]
            correction = 1 - beta2**step
            longest = 2 / (1 - beta2) - 1
            length = longest - 2 * step * beta2**step / correction
            if length <= TRUSTED_LENGTH:
                group["lr"] *= OUTWEIGHS
                group["eps"] = OUTWEIGHS
            else:
                rectification = (
                    (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
                )
                group["lr"] *= math.sqrt(rectification)
                group["eps"] /= math.sqrt(correction)
        try:
            return super().step(closure)
        finally:
            for group, (rate, epsilon) in zip(self.param_groups, plain, strict=True):
                group["lr"], group["eps"] = rate, epsilon


def clip_gradients(parameters: Iterable[nn.Parameter], stage: Stage) -> Tensor:
    """Clip by global norm, then by value, whichever the stage asks for; return the norm before."""
    parameters = list(parameters)
    if stage.clip_norm is not None:
        norm = nn.utils.clip_grad_norm_(parameters, stage.clip_norm)
    else:
        norm = nn.utils.get_total_norm(
            [parameter.grad for parameter in parameters if parameter.grad is not None]
        )
    if stage.clip_value is not None:
        # On a CPU one pass over a gradient, where `foreach` takes two;
        # on a GPU few launches, of many tensors each.
        on_cpu = all(parameter.device.type == "cpu" for parameter in parameters)
        nn.utils.clip_grad_value_(parameters, stage.clip_value, foreach=False if on_cpu else None)
    return norm


class WeightAverage:
    """An exponential moving average of parameters:
    smoother than the last step, and better on little data.

    After step t: average = d * average + (1 - d) * weights, with d = min(decay, (1 + t) / (10 +
    t)).
    """

    def __init__(self, parameters: Iterable[nn.Parameter], decay: float) -> None:
        self.parameters = list(parameters)
        self.decay = decay
        self.averages = [parameter.detach().clone() for parameter in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after a step, counted from 1."""
        decay = min(self.decay, (1 + step) / (10 + step))
        get_ema_multi_avg_fn(decay)(
            self.averages, [parameter.detach() for parameter in self.parameters], step
        )

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within, the model has the averages for weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for index, parameter in enumerate(self.parameters):
            parameter.data, self.averages[index] = self.averages[index], parameter.data
