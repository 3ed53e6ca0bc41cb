"""Only for speed: everything here has a plain twin in torch,
which `RECAP_FAST=0` in the environment takes.

Elsewhere, because they belong there: padding left out (`recap.nn.rows.PackedIndex`), and a quick
gradient of attention in bf16 (`recap.nn.attention.attended`). Without them results agree up to
rounding, but for dropout where padding is left out, which draws for fewer entries. Compiled code
takes the plain twins. No clock decides which path is taken: on one machine a training has the same
bytes each time.

Here are products of float32 matrices on a CPU, quicker than torch's own in three cases; all sum in
another order.

**oneDNN**, on the processors of `ONEDNN`. torch's linear layers multiply through MKL, which takes
AVX2 on processors of other makers than its own. On one core of Zen 5 500 rows of 1,024 run at 95
GFLOP/s by MKL, at 200 to 220 by oneDNN; on Zen 4 it is 5 to 20 % faster. On Zen 3, which has AVX2
alone, MKL is up to 1.1 times as fast as oneDNN, and up to 1.6 times for gradients of weights.

**Gradients of a loop.** Left to itself, autograd makes a gradient of the weight's size at every
time step and adds them up, which costs more than multiplying 50 rows. Within `deferred_weight_grad`
there is one product after the loop:

    forward    weight -> _Collect -> _DeferredProduct(x_1) -> _DeferredProduct(x_2)
    backward   _DeferredProduct(x_2) -> _DeferredProduct(x_1) -> _Collect -> weight

Forwards each records its input, backwards its output's gradient; _Collect returns sum_t
gradient_t^T x_t.

**Packed weights.** MKL packs the whole weight again for every product; with the few rows of
decoding this costs as much as the product. Within `fixed_weights` oneDNN packs a weight once, at
its second use (one core of Zen 4, 50 rows: 65 to 80 -> 100 GFLOP/s; 10 rows: 32 -> 70), for an
encoder has one use per batch. Outside of that scope nothing is kept: torch's fused optimizers
change weights without raising their version, so that no layer could tell whether its weight is
still the one that was packed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

# The size from which oneDNN is quicker, by the name that torch has for a
# processor's instructions: multiplications of a product, and entries of a weight
# that a search packs, for few rows and for more. What is not listed, such as Arm,
# has torch's own products. `python -m benchmarks.products` measures all of these.
ONEDNN: dict[str, dict[str, int]] = {
    "AVX512": {"product": 2**23, "packed, few rows": 2**17, "packed": 2**17},
    "AVX2": {"packed, few rows": 2**20},
}
FEW_ROWS = 32

_enabled = os.environ.get("RECAP_FAST", "1") != "0"


def fast() -> bool:
    """Return whether fast paths are taken: not where a compiler follows, which could not."""
    return _enabled and not torch.compiler.is_compiling()


def as_autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return tensors in the type in which autocast multiplies; outside of autocast as they are."""
    kind = tensors[0].device.type
    if not torch.is_autocast_enabled(kind):
        return tensors
    return tuple(tensor.to(torch.get_autocast_dtype(kind)) for tensor in tensors)


def multiplied(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [R, P] times weight [Q, P], plus bias [Q] -> [R, Q]; no gradient passes."""
    if not suits_onednn(x, weight, "product", x.numel() * len(weight)):
        return linear(x, weight, bias)
    return onednn_product(unbroken(x), unbroken(weight), bias)


class _OneDnnProduct(torch.autograd.Function):
    """`multiplied`, with gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return multiplied(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            multiplied(grad, weight.mT) if of_x else None,
            multiplied(grad.mT, x.mT) if of_weight else None,
            grad.sum(0) if of_bias else None,
        )


def unbroken(matrix: Tensor) -> Tensor:
    """Copy a part of a larger matrix: there oneDNN falls back to loops that take seconds."""
    if matrix.is_contiguous() or matrix.mT.is_contiguous():
        return matrix
    # lines as they lie: no turning
    return matrix.mT.contiguous().mT if matrix.stride(0) == 1 else matrix.contiguous()


def suits_onednn(x: Tensor, weight: Tensor, kind: str, size: int) -> bool:
    """Return whether oneDNN is there and quicker on this CPU for a kind and size of `ONEDNN`."""
    return (
        fast()
        and size >= ONEDNN.get(torch.backends.cpu.get_cpu_capability(), {}).get(kind, math.inf)
        and x.numel() > 0
        and weight.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not weight.is_inference()
        and has_onednn()
    )


def has_onednn() -> bool:
    """Return whether this torch has oneDNN and the private operators that are used here."""
    operators = torch.ops.mkldnn
    return torch.backends.mkldnn.is_available() and all(
        hasattr(operators, name) for name in ("_reorder_linear_weight", "_linear_pointwise")
    )


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x [R, P] times weight [Q, P], as it is or packed, plus bias [Q] -> [R, Q]."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


WeightKey = tuple[int, tuple[int, ...]]  # a weight's address and shape
Columns = tuple[int, int]  # the first one, and the one after the last
_loop: ContextVar[dict[WeightKey, DeferredWeightGrad] | None] = ContextVar("loop", default=None)


@contextmanager
def deferred_weight_grad() -> Iterator[None]:
    """Within it, a loop over time, every `product` with a weight defers its gradient."""
    if not fast() or not torch.is_grad_enabled():
        yield
        return
    weights: dict[WeightKey, DeferredWeightGrad] = {}
    token = _loop.set(weights)
    try:
        yield
    finally:
        _loop.reset(token)
        for deferred in weights.values():
            deferred.close()


class DeferredWeightGrad:
    """The products with one weight [Q, W], or with some of its columns, within one loop."""

    def __init__(self, weight: Tensor) -> None:
        (weight,) = as_autocast(weight)
        self._width = weight.shape[1]
        self.parts: dict[Columns, Tensor] = {}  # [Q, P], laid out for a product
        self.inputs: list[tuple[Columns, Tensor]] = []  # rows [R, P] of each product
        # [R, Q], by product, so that a second backward pass replaces the first
        self.grads: dict[int, Tensor] = {}
        self._weight: Tensor | None = _Collect.apply(weight, self)

    def product(self, x: Tensor, first: int) -> Tensor:
        """[..., P] -> [..., Q]."""
        assert self._weight is not None, "the loop has ended"
        columns = (first, first + x.shape[-1])
        if columns not in self.parts:  # once, and not for every time step
            self.parts[columns] = unbroken(self._weight.detach()[:, first : columns[1]])
        rows: Tensor = _DeferredProduct.apply(
            x.to(self._weight.dtype).flatten(0, -2), self._weight, self, columns
        )
        return rows.view(*x.shape[:-1], -1)

    def close(self) -> None:
        """End the loop: without the weight,
        graph and owner no longer hold each other, and go once the step is done."""
        self._weight = None
        self.parts = {}

    def weight_grad(self) -> Tensor:
        """Return the weight's gradient over all products, [Q, W]."""
        inputs: dict[Columns, list[Tensor]] = {}
        outputs: dict[Columns, list[Tensor]] = {}
        for number, grad in self.grads.items():
            columns, rows = self.inputs[number]
            inputs.setdefault(columns, []).append(rows)
            outputs.setdefault(columns, []).append(grad)
        grads = {}
        for columns, rows_of in inputs.items():
            grads[columns] = multiplied(torch.cat(outputs[columns]).mT, torch.cat(rows_of).mT)
        if [*grads] == [(0, self._width)]:
            return grads[0, self._width]
        some = next(iter(grads.values()))
        whole = some.new_zeros(len(some), self._width)
        for (first, end), grad in grads.items():
            whole[:, first:end] += grad
        return whole


class _Collect(torch.autograd.Function):
    """The weight itself; its backward runs after those of all products, which use its output."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, owner: DeferredWeightGrad) -> Tensor:
        ctx.owner = owner
        ctx.set_materialize_grads(False)
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, *_: None) -> tuple[Tensor, None]:
        return ctx.owner.weight_grad(), None


class _DeferredProduct(torch.autograd.Function):
    """Rows x [R, P] times columns of the weight, whose gradient goes to the owner."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, owner: DeferredWeightGrad, columns: Columns
    ) -> Tensor:
        part = owner.parts[columns]
        ctx.save_for_backward(part)
        ctx.owner = owner
        ctx.number = len(owner.inputs)
        owner.inputs.append((columns, x.detach()))
        return multiplied(x, part)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (part,) = ctx.saved_tensors
        ctx.owner.grads[ctx.number] = grad
        return multiplied(grad, part.mT), None, None, None


@dataclass
class UsedWeight:
    """A used weight [Q, P], held so that its memory is not reused, and in oneDNN's layout."""

    weight: Tensor
    version: int
    packed: Tensor | None = None


_used: ContextVar[dict[WeightKey, UsedWeight] | None] = ContextVar("used", default=None)


@contextmanager
def fixed_weights() -> Iterator[None]:
    """Within, no gradient is kept and no optimizer steps, so that each weight is packed at most
    once.

    For the length of a decoding; scopes may be nested.
    """
    outer = _used.get()
    token = _used.set({} if outer is None else outer)
    try:
        with torch.no_grad():
            yield
    finally:
        _used.reset(token)


def product(x: Tensor, weight: Tensor, bias: Tensor | None, *, first: int = 0) -> Tensor:
    """x [..., P] times the P columns of weight [Q, W] from `first`, plus bias [Q] -> [..., Q]."""
    if torch.is_grad_enabled() and fast():
        loop = _loop.get()
        if loop is not None:
            key = (weight.data_ptr(), tuple(weight.shape))
            if key not in loop:
                loop[key] = DeferredWeightGrad(weight)
            out = loop[key].product(x, first)
            return out if bias is None else out + bias
    if x.shape[-1] < weight.shape[1]:
        weight = weight[:, first : first + x.shape[-1]]
    # a compiler follows: it can read no variable, and would compile again for each size compared
    if not fast():
        return linear(x, weight, bias)
    used = None if torch.is_grad_enabled() else _used.get()
    packed = "packed, few rows" if x.numel() <= FEW_ROWS * x.shape[-1] else "packed"
    if used is not None and suits_onednn(x, weight, packed, weight.numel()):
        out = onednn_product(x.reshape(-1, x.shape[-1]), _packed_if_used(weight, used), bias)
    elif suits_onednn(x, weight, "product", x.numel() * len(weight)):
        out = _OneDnnProduct.apply(x.reshape(-1, x.shape[-1]), weight, bias)
    else:
        return linear(x, weight, bias)
    return out.view(*x.shape[:-1], len(weight))


def _packed_if_used(weight: Tensor, weights: dict[WeightKey, UsedWeight]) -> Tensor:
    """Return a weight as it is, from its second use on packed.

    On Zen 4 products with both have the same bits.
    """
    key = (weight.data_ptr(), tuple(weight.shape))
    used = weights.get(key)
    if used is None or used.version != weight._version:
        weights[key] = UsedWeight(weight.detach(), weight._version)
        return unbroken(weight.detach())
    if used.packed is None:
        used.packed = torch.ops.mkldnn._reorder_linear_weight(used.weight, None)
    return used.packed


class Linear(nn.Linear):
    """torch's linear layer: pre-packed within `fixed_weights`,
    with one gradient within `deferred_weight_grad`."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., P] -> [..., Q]."""
        return product(x, self.weight, self.bias)
