"""Linear layer with pre-packed weights for small batches on a CPU, as decoding has them: 50 beams, a large weight.

On a CPU torch multiplies through MKL, which packs the whole weight again for every product; with few rows this costs as
much as the product. Within `fixed_weights()` a weight is packed once and oneDNN multiplies with it (measured on one
core of Zen 4, 50 rows: 65 to 80 -> 100 GFLOP/s; 10 rows: 32 -> 70). The results are those of float32 products summed
in another order.

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
from torch.nn.functional import linear
from torch.optim.optimizer import register_optimizer_step_post_hook

from recap.nn.fast.deferred import deferred_product
from recap.nn.fast.switch import fast

MIN_PREPACK_SIZE = 2**17  # entries of a weight from which packing pays


@dataclass(frozen=True)
class PrepackedWeight:
    """A weight [Q, P] in oneDNN's layout; the weight itself is held, so that its memory is not used again."""

    weight: Tensor
    version: int
    packed: Tensor


_Prepacked = dict[tuple[int, tuple[int, ...]], PrepackedWeight]  # by a weight's address and shape
_prepacked: ContextVar[_Prepacked | None] = ContextVar("prepacked", default=None)


@contextmanager
def fixed_weights() -> Iterator[None]:
    """Within, no gradient is kept and weights do not change, so that each is packed once; scopes may be nested.

    For the length of a decoding. Should an optimizer take a step all the same, everything is packed again.
    """
    outer = _prepacked.get()
    weights: _Prepacked = {} if outer is None else outer
    token = _prepacked.set(weights)
    hook = register_optimizer_step_post_hook(lambda *_: weights.clear())
    try:
        with torch.no_grad():
            yield
    finally:
        hook.remove()
        _prepacked.reset(token)


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x [..., P] times weight [Q, P], plus bias [Q] -> [..., Q]."""
    deferred = deferred_product(x, weight)
    if deferred is not None:
        return deferred if bias is None else deferred + bias
    weights = _prepacked.get() if should_prepack(x, weight) else None
    if weights is None:
        return linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    out = torch.ops.mkldnn._linear_pointwise(rows, _prepack(weight, weights), bias, "none", [], "")
    return out.view(*x.shape[:-1], len(weight))


def should_prepack(x: Tensor, weight: Tensor) -> bool:
    """Return whether a packed weight is faster and this torch can multiply with one."""
    return (
        weight.numel() >= MIN_PREPACK_SIZE
        and not torch.is_grad_enabled()
        and weight.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not weight.is_inference()
        and not torch.compiler.is_compiling()
        and fast()
        and has_prepacked_product()
        and x.numel() > 0
    )


def has_prepacked_product() -> bool:
    """Return whether this torch has oneDNN and the operators used here, which are not part of its public interface."""
    operators = torch.ops.mkldnn
    return torch.backends.mkldnn.is_available() and all(
        hasattr(operators, name) for name in ("_reorder_linear_weight", "_linear_pointwise")
    )


def _prepack(weight: Tensor, weights: _Prepacked) -> Tensor:
    key = (weight.data_ptr(), tuple(weight.shape))
    known = weights.get(key)
    if known is None or known.version != weight._version:
        weight = weight.detach()
        known = PrepackedWeight(weight, weight._version, _reordered(weight))
        weights[key] = known
    return known.packed


def _reordered(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight, None)


class Linear(nn.Linear):
    """torch's linear layer: pre-packed within `fixed_weights`, with one gradient within `deferred_weight_grad`."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., P] -> [..., Q]."""
        return product(x, self.weight, self.bias)
