"""A weight that a loop multiplies with at every word: its gradient is one product over all words, made after the loop.

Left to itself, autograd makes a gradient of the weight's size at every word and adds them up; with 50 rows a word,
writing them costs more than multiplying.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import linear

from recap.layers.fast.uncompiled import uncompiled


class Deferred:
    """Products with a weight [Q, P] within one loop."""

    @uncompiled  # a compiler cannot follow what is handed over between forward and backward
    def __init__(self, weight: Tensor) -> None:
        kind = weight.device.type
        if torch.is_autocast_enabled(kind):
            weight = weight.to(torch.get_autocast_dtype(kind))
        self._inputs: list[Tensor] = []
        self._gradients: dict[int, Tensor] = {}  # by word, so that a second backward pass replaces the first
        self._weight: Tensor | None = cast(Tensor, _Collect.apply(weight, self))

    @uncompiled
    def product(self, x: Tensor) -> Tensor:
        """[..., P] -> [..., Q]."""
        assert self._weight is not None, "the loop has ended"
        x = x.to(self._weight.dtype)
        return cast(Tensor, _Product.apply(x, self._weight, self))

    def close(self) -> None:
        """End the loop: without the weight, graph and owner no longer hold each other, and go once the step is done."""
        self._weight = None

    def remember(self, x: Tensor) -> int:
        """Keep the rows of a product; returns its number."""
        self._inputs.append(x.detach().flatten(0, -2))
        return len(self._inputs) - 1

    def receive(self, number: int, gradient: Tensor) -> None:
        """Keep what came back to a product."""
        self._gradients[number] = gradient.flatten(0, -2)

    def gradient(self) -> Tensor:
        """Return the weight's gradient over all products, [Q, P]."""
        rows = torch.cat([self._inputs[number] for number in self._gradients])
        return torch.cat([*self._gradients.values()]).mT @ rows


class _Collect(torch.autograd.Function):
    """The weight itself; runs after every product has had its backward pass, because all of them use its output."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, owner: Deferred) -> Tensor:
        ctx.owner = owner
        ctx.set_materialize_grads(False)
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, *_: None) -> tuple[Tensor, None]:
        return ctx.owner.gradient(), None


class _Product(torch.autograd.Function):
    """x times the weight, whose gradient goes to the owner."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, owner: Deferred) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.owner, ctx.number = owner, owner.remember(x)
        return linear(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        ctx.owner.receive(ctx.number, gradient)
        return gradient @ weight, None, None
