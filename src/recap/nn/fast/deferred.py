"""Defers the weight gradient of layers that a loop applies at every time step: one product after the loop per weight.

Left to itself, autograd makes a gradient of the weight's size at every time step and adds them up; with 50 rows per
step, writing them costs more than multiplying. Who calls whom, for one weight in a loop of two steps:

    forward    weight -> _Collect -> _Product(x_1) -> _Product(x_2)      each _Product records its input
    backward   _Product(x_2) -> _Product(x_1) -> _Collect -> weight      each _Product records its output's gradient,
                                                                         _Collect returns sum_t gradient_t^T x_t

A product may take some columns of the weight; the gradients of all columns are written into one tensor. Autograd would
make one of the whole weight's size for every part, nearly all zeros, and add them up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from recap.nn.fast.autocast import as_autocast
from recap.nn.fast.onednn import multiplied, unbroken
from recap.nn.fast.switch import fast
from recap.nn.fast.uncompiled import uncompiled

_Loop = dict[tuple[int, tuple[int, ...]], "DeferredWeightGrad"]  # by a weight's address and shape
Columns = tuple[int, int]  # the first one, and the one after the last
_loop: ContextVar[_Loop | None] = ContextVar("loop", default=None)


@contextmanager
def deferred_weight_grad() -> Iterator[None]:
    """Within, for the length of a loop over time steps, every `product` with a weight defers the weight's gradient."""
    if not fast() or not torch.is_grad_enabled() or torch.compiler.is_compiling():
        yield
        return
    weights: _Loop = {}
    token = _loop.set(weights)
    try:
        yield
    finally:
        _loop.reset(token)
        for deferred in weights.values():
            deferred.close()


def deferred_product(x: Tensor, weight: Tensor, first: int) -> Tensor | None:
    """x [..., P] times P columns of weight, from `first` on -> [..., Q]; None outside of `deferred_weight_grad`."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return None
    weights = _loop.get()
    if weights is None:
        return None
    key = (weight.data_ptr(), tuple(weight.shape))
    if key not in weights:
        weights[key] = DeferredWeightGrad(weight)
    return weights[key].product(x, first)


class DeferredWeightGrad:
    """The products with one weight [Q, W], or with some of its columns, within one loop."""

    @uncompiled  # a compiler cannot follow what is handed over between forward and backward
    def __init__(self, weight: Tensor) -> None:
        (weight,) = as_autocast(weight)
        self._width = weight.shape[1]
        self._parts: dict[Columns, Tensor] = {}
        self._inputs: list[tuple[Columns, Tensor]] = []
        self._grads: dict[int, Tensor] = {}  # by time step, so that a second backward pass replaces the first
        self._weight: Tensor | None = _Collect.apply(weight, self)

    @uncompiled
    def product(self, x: Tensor, first: int) -> Tensor:
        """[..., P] -> [..., Q]."""
        assert self._weight is not None, "the loop has ended"
        columns = (first, first + x.shape[-1])
        if columns not in self._parts:  # once, and not for every time step
            self._parts[columns] = unbroken(self._weight.detach()[:, first : columns[1]])
        rows: Tensor = _Product.apply(x.to(self._weight.dtype).flatten(0, -2), self._weight, self, columns)
        return rows.view(*x.shape[:-1], -1)

    def close(self) -> None:
        """End the loop: without the weight, graph and owner no longer hold each other, and go once the step is done."""
        self._weight = None
        self._parts = {}

    def part(self, columns: Columns) -> Tensor:
        """Return columns of the weight, [Q, P], laid out for a product."""
        return self._parts[columns]

    def record_input(self, x: Tensor, columns: Columns) -> int:
        """Keep the rows [R, P] of a product; returns its number."""
        self._inputs.append((columns, x.detach()))
        return len(self._inputs) - 1

    def record_grad(self, number: int, grad: Tensor) -> None:
        """Keep the gradient of a product's output, [R, Q]."""
        self._grads[number] = grad

    def weight_grad(self) -> Tensor:
        """Return the weight's gradient over all products, [Q, W]."""
        numbers: dict[Columns, list[int]] = {}
        for number in self._grads:
            numbers.setdefault(self._inputs[number][0], []).append(number)
        grads = {columns: self._grad_of(same) for columns, same in numbers.items()}
        if [*grads] == [(0, self._width)]:
            return grads[0, self._width]
        some = next(iter(grads.values()))
        whole = some.new_zeros(len(some), self._width)
        for (first, end), grad in grads.items():
            whole[:, first:end] += grad
        return whole

    def _grad_of(self, numbers: list[int]) -> Tensor:
        rows = torch.cat([self._inputs[number][1] for number in numbers])
        return multiplied(torch.cat([self._grads[number] for number in numbers]).mT, rows.mT)


class _Collect(torch.autograd.Function):
    """The weight itself; its backward runs after that of every product, because all of them use its output."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, owner: DeferredWeightGrad) -> Tensor:
        ctx.owner = owner
        ctx.set_materialize_grads(False)
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, *_: None) -> tuple[Tensor, None]:
        return ctx.owner.weight_grad(), None


class _Product(torch.autograd.Function):
    """Rows x [R, P] times columns of the weight, whose gradient goes to the owner."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, owner: DeferredWeightGrad, columns: Columns) -> Tensor:
        part = owner.part(columns)
        ctx.save_for_backward(part)
        ctx.owner, ctx.number = owner, owner.record_input(x, columns)
        return multiplied(x, part)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (part,) = ctx.saved_tensors
        ctx.owner.record_grad(ctx.number, grad)
        return multiplied(grad, part.mT), None, None, None
