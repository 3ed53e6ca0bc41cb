"""Rectified Adam (Liu et al. 2020) in one pass over weights and moments.

Once its second moment is trusted, from the sixth step on with the usual betas, a step of RAdam is one of Adam with
another rate and another epsilon. With bias corrections c1, c2 of the moments m, v and the rectification r:

    RAdam    lr r (m / c1) sqrt(c2) / (sqrt(v) + eps)
    Adam     lr' (m / c1) / (sqrt(v / c2) + eps')         lr' = lr r,  eps' = eps / sqrt(c2)

and torch's Adam has a fused form. The steps before are torch's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

from recap.nn.fast.switch import fast

TRUSTED_LENGTH = 5.0  # of the average behind the second moment, rho_t: the update is rectified above it


class RAdam(torch.optim.RAdam):
    """torch's RAdam, equal up to rounding and with the same state; torch's makes about ten passes."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step, as `torch.optim.RAdam.step`."""
        plans = [self._plan(group) for group in self.param_groups]
        if closure is not None or not fast() or None in plans:
            return super().step(closure)
        for group, plan in zip(self.param_groups, plans, strict=True):
            if plan:
                self._step_group(group, *plan)
        return None

    def _plan(self, group: dict[str, Any]) -> tuple[list[Tensor], float, float] | tuple[()] | None:
        """Return the weights of a group that have a gradient, lr' and eps'.

        Empty where no weight has one; None where torch's own step has to be taken.
        """
        weights = [weight for weight in group["params"] if weight.grad is not None]
        steps = {float(self.state[weight].get("step", 0)) + 1 for weight in weights}
        if not steps:
            return ()
        if len(steps) > 1 or group["decoupled_weight_decay"]:
            return None
        step, beta2 = steps.pop(), group["betas"][1]
        correction = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / correction
        if length <= TRUSTED_LENGTH:
            return None
        rectification = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        return weights, float(group["lr"]) * math.sqrt(rectification), group["eps"] / math.sqrt(correction)

    def _step_group(self, group: dict[str, Any], weights: list[Tensor], rate: float, epsilon: float) -> None:
        states = [self.state[weight] for weight in weights]
        adam(
            weights,
            [weight.grad for weight in weights if weight.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=rate,
            weight_decay=group["weight_decay"],
            eps=epsilon,
            maximize=group["maximize"],
        )
