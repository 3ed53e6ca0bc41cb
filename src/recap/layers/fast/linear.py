"""A linear layer that is quick with few rows, as decoding has them: 50 beams against a large weight.

On a processor torch multiplies through MKL, which lays out the whole weight anew for every product; with few rows this
costs as much as the product. Within `fixed_weights()` a weight is laid out once and oneDNN multiplies with it
(measured on one core of Zen 4, 50 rows: 65 to 80 -> 100 GFLOP/s; 10 rows: 32 -> 70). The results are those of float32
products summed in another order.

Outside of that scope nothing is kept: torch's fused optimisers change weights without raising their version, so that
no layer could tell by itself whether its weight is still the one that it has laid out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.optim.optimizer import register_optimizer_step_post_hook

from recap.layers.fast.deferred import Deferred

LARGE = 2**17  # entries of a weight from which laying out pays


@dataclass(frozen=True)
class _LaidOut:
    """A weight [Q, P] in oneDNN's layout; the weight is held, so that its memory is no other's."""

    weight: Tensor
    version: int
    layout: Tensor


_Layouts = dict[tuple[int, tuple[int, ...]], _LaidOut]  # by address and shape
_layouts: ContextVar[_Layouts | None] = ContextVar("layouts", default=None)


@contextmanager
def fixed_weights() -> Iterator[None]:
    """Within, no gradient is kept and weights stay as they are, so that each is laid out once; scopes may be nested.

    For the length of a decoding. Should an optimiser take a step all the same, everything is laid out anew.
    """
    outer = _layouts.get()
    layouts: _Layouts = {} if outer is None else outer
    token = _layouts.set(layouts)
    hook = register_optimizer_step_post_hook(lambda *_: layouts.clear())
    try:
        with torch.no_grad():
            yield
    finally:
        hook.remove()
        _layouts.reset(token)


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x [..., P] times weight [Q, P], plus bias [Q] -> [..., Q]."""
    layouts = _layouts.get() if _pays(x, weight) else None
    if layouts is None:
        return linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    out = torch.ops.mkldnn._linear_pointwise(rows, _laid_out(weight, layouts), bias, "none", [], "")
    return cast(Tensor, out).view(*x.shape[:-1], len(weight))


def _laid_out(weight: Tensor, layouts: _Layouts) -> Tensor:
    key = (weight.data_ptr(), tuple(weight.shape))
    known = layouts.get(key)
    if known is None or known.version != weight._version:
        weight = weight.detach()
        known = _LaidOut(weight, weight._version, _reordered(weight))
        layouts[key] = known
    return known.layout


def _reordered(weight: Tensor) -> Tensor:
    return cast(Tensor, torch.ops.mkldnn._reorder_linear_weight(weight, None))


def _pays(x: Tensor, weight: Tensor) -> bool:
    return (
        weight.numel() >= LARGE
        and not torch.is_grad_enabled()
        and weight.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not weight.is_inference()
        and not torch.compiler.is_compiling()
        and torch.backends.mkldnn.is_available()
        and x.numel() > 0
    )


class Linear(nn.Linear):
    """torch's linear layer, with its weight laid out within `fixed_weights`, its gradient made once a loop."""

    deferred: Deferred | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[..., P] -> [..., Q]."""
        if self.deferred is not None:
            out = self.deferred.product(x)
            return out if self.bias is None else out + self.bias
        return product(x, self.weight, self.bias)

    def defer(self, begin: bool) -> None:
        """Begin or end a loop."""
        if self.deferred is not None:
            self.deferred.close()
        self.deferred = Deferred(self.weight) if begin else None


class Loops(Protocol):
    """A module whose weights can be told of a loop."""

    def defer(self, begin: bool) -> None:
        """Begin or end a loop."""


@contextmanager
def one_gradient(*modules: Loops) -> Iterator[None]:
    """Within, the weights of the modules collect their gradient for one product; see `recap.layers.fast.deferred`."""
    deferring = torch.is_grad_enabled() and not torch.compiler.is_compiling()
    for module in modules:
        module.defer(deferring)
    try:
        yield
    finally:
        for module in modules:
            module.defer(False)
