"""Linear layer with pre-packed weights for small batches on a CPU, as decoding has them: 50 beams, a large weight.

On a CPU torch multiplies through MKL, which packs the whole weight again for every product; with few rows this costs as
much as the product. Within `fixed_weights()` oneDNN multiplies, and packs a weight once, at its second use (measured on
one core of Zen 4, 50 rows: 65 to 80 -> 100 GFLOP/s; 10 rows: 32 -> 70): packing costs what it saves in five to ten
uses, and an encoder has one per batch. The results are those of float32 products summed in another order.

Outside of that scope nothing is kept: torch's fused optimizers change weights without raising their version, so that
no layer could tell by itself whether its weight is still the one that was packed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from recap.nn.fast.deferred import deferred_product
from recap.nn.fast.onednn import learned_product, onednn_product, packed, suits_onednn, unbroken

MIN_PREPACK_SIZE = 2**17  # entries of a weight from which packing pays


@dataclass
class UsedWeight:
    """A weight [Q, P] that was used, which is held, so that its memory is not used again, and in oneDNN's layout."""

    weight: Tensor
    version: int
    packed: Tensor | None = None


_Used = dict[tuple[int, tuple[int, ...]], UsedWeight]  # by a weight's address and shape
_used: ContextVar[_Used | None] = ContextVar("used", default=None)


@contextmanager
def fixed_weights() -> Iterator[None]:
    """Within, no gradient is kept and weights do not change, so that each is packed at most once; scopes may be nested.

    For the length of a decoding. Should an optimizer take a step all the same, everything is packed again.
    """
    outer = _used.get()
    weights: _Used = {} if outer is None else outer
    token = _used.set(weights)
    hook = register_optimizer_step_post_hook(lambda *_: weights.clear())
    try:
        with torch.no_grad():
            yield
    finally:
        hook.remove()
        _used.reset(token)


def product(x: Tensor, weight: Tensor, bias: Tensor | None, *, first: int = 0) -> Tensor:
    """x [..., P] times the P columns of weight [Q, W] from `first` on, plus bias [Q] -> [..., Q]."""
    deferred = deferred_product(x, weight, first)
    if deferred is not None:
        return deferred if bias is None else deferred + bias
    if x.shape[-1] < weight.shape[1]:
        weight = weight[:, first : first + x.shape[-1]]
    weights = _used.get() if should_prepack(x, weight) else None
    if weights is None:
        return learned_product(x, weight, bias)
    out = onednn_product(x.reshape(-1, x.shape[-1]), _packed_if_used(weight, weights), bias)
    return out.view(*x.shape[:-1], len(weight))


def should_prepack(x: Tensor, weight: Tensor) -> bool:
    """Return whether a packed weight is faster and this torch can multiply with one."""
    return (
        weight.numel() >= MIN_PREPACK_SIZE and not torch.is_grad_enabled() and suits_onednn(x, weight) and x.numel() > 0
    )


def _packed_if_used(weight: Tensor, weights: _Used) -> Tensor:
    """Return a weight as it is, from its second use on packed; on Zen 4 products with both have the same bits."""
    key = (weight.data_ptr(), tuple(weight.shape))
    known = weights.get(key)
    if known is None or known.version != weight._version:
        weights[key] = UsedWeight(weight.detach(), weight._version)
        return unbroken(weight.detach())
    if known.packed is None:
        known.packed = packed(known.weight)
    return known.packed


class Linear(nn.Linear):
    """torch's linear layer: pre-packed within `fixed_weights`, with one gradient within `deferred_weight_grad`."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., P] -> [..., Q]."""
        return product(x, self.weight, self.bias)
