"""Counts what a step asks of a device: floating-point operations, operators that compute, and waits.

Operations are counted by torch's public formulas, also in passes without a gradient.

`FlopCounterMode` itself follows modules through hooks on gradients, which fail where part of a step has none.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, register_flop_formula

Shape = tuple[int, ...]
_WAITS = ("_local_scalar_dense", "nonzero", "masked_select")


class Operations(TorchDispatchMode):
    """Counts within a `with` block.

    Attributes:
        total: operations so far: products, convolutions and attention, which are nearly all.
        launches: operators that compute, not those that only look at memory differently or reserve it.
        waits: reads of a number and indices of unknown length, at which the CPU waits for its device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.total = self.launches = self.waits = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and add what it computes."""
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        self.launches += not (func.is_view or "empty" in name or name == "detach")
        masks = name == "index" and any(each is not None and each.dtype == torch.bool for each in args[1])
        self.waits += name in _WAITS or masks
        formula: Callable[..., int] | None = _formulas().get(func.overloadpacket)
        if formula is not None:
            self.total += formula(*args, **(kwargs or {}), out_val=out)
        return out


def _formulas() -> dict[Any, Callable[..., int]]:
    """Return torch's formulas and those of the operators of the CPU that it does not know."""
    for name, formula in _OF_CPU.items():
        namespace, _, operator = name.partition("::")
        packet = getattr(getattr(torch.ops, namespace), operator, None)  # a build without oneDNN lacks its operators
        if packet is not None and packet not in flop_registry:
            register_flop_formula(packet)(formula)
    return flop_registry


def _attention(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    """Count fused attention of [B, H, T, E] over [B, H, N, E]: scores, then sums."""
    *batch, length, width = query
    return 2 * prod(batch) * length * key[-2] * (width + value[-1])


def _attention_backward(grad: Shape, query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    """Count its gradient: five products in place of two."""
    return _attention(query, key, value) * 5 // 2


def _packed_linear(x: Shape, *_: Any, out_shape: Shape, **__: Any) -> int:
    """Count a product with a weight in oneDNN's layout."""
    return 2 * prod(x) * out_shape[-1]


_OF_CPU: dict[str, Callable[..., int]] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "mkldnn::_linear_pointwise": _packed_linear,
}
