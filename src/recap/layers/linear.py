"""A linear layer that is quick with few rows, as decoding has them: 50 beams against a large weight.

On a processor torch multiplies through MKL, which lays out the whole weight anew for every product; with few rows this
costs as much as the product. Without a gradient to keep, the weight is laid out once and oneDNN multiplies with it
(measured on one core of Zen 4, 50 rows: 65 to 80 -> 100 GFLOP/s; 10 rows: 32 -> 70). The results are those of float32
products summed in another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from recap.layers.deferred import Deferred

LARGE = 2**17  # entries of a weight from which laying out pays


class LaidOut:
    """A weight in oneDNN's layout, made when it is first needed and again when the weight has changed.

    It is no part of a model's state: copies and pickles of it are empty.
    """

    def __init__(self) -> None:
        self._of: tuple[int, int, tuple[int, ...]] | None = None
        self._weight: Tensor | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return LaidOut, ()

    def product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """x [..., P] times weight [Q, P], plus bias [Q] -> [..., Q]; the layout is dropped when a gradient is kept."""
        if not _pays(x, weight):
            if torch.is_grad_enabled():
                self._of = self._weight = None
            return linear(x, weight, bias)
        # An optimiser writes in place, which raises the version; loading or moving may exchange the memory.
        now = (weight._version, weight.data_ptr(), tuple(weight.shape))
        if self._of != now:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
            self._of = now
        rows = x.reshape(-1, x.shape[-1])
        out = torch.ops.mkldnn._linear_pointwise(rows, self._weight, bias, "none", [], "")
        return cast(Tensor, out).view(*x.shape[:-1], len(weight))


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
    """torch's linear layer, with its weight laid out while no gradient is kept, its gradient made once a loop."""

    deferred: Deferred | None = None

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)
        self.laid_out = LaidOut()

    def forward(self, x: Tensor) -> Tensor:
        """[..., P] -> [..., Q]."""
        if self.deferred is not None:
            product = self.deferred.product(x)
            return product if self.bias is None else product + self.bias
        return self.laid_out.product(x, self.weight, self.bias)

    def defer(self, begin: bool) -> None:
        """Begin or end a loop."""
        if self.deferred is not None:
            self.deferred.close()
        self.deferred = Deferred(self.weight) if begin else None

    def train(self, mode: bool = True) -> Self:
        """Set the mode and forget the layout: a change through `weight.data` leaves no other trace."""
        self.laid_out = LaidOut()
        return super().train(mode)


class Loops(Protocol):
    """A module whose weights can be told of a loop."""

    def defer(self, begin: bool) -> None:
        """Begin or end a loop."""


@contextmanager
def one_gradient(*modules: Loops) -> Iterator[None]:
    """Within, the weights of the modules collect their gradient for one product; see `recap.layers.deferred`."""
    deferring = torch.is_grad_enabled() and not torch.compiler.is_compiling()
    for module in modules:
        module.defer(deferring)
    try:
        yield
    finally:
        for module in modules:
            module.defer(False)
