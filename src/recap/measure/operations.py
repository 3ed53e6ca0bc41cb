"""Counts what a step asks of a device: floating-point operations, operators that compute, and waits.

Operations are counted by torch's public formulas, also in passes without a gradient.

`FlopCounterMode` itself follows modules through hooks on gradients, which fail where part of a step has none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

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
        if formula := _formulas().get(func.overloadpacket):
            self.total += formula(*args, **(kwargs or {}), out_val=out)
        return out


@cache
def _formulas() -> dict[Any, Callable[..., int]]:
    """Return torch's formulas and those of the operators of the CPU that it does not know."""
    aten, formulas = torch.ops.aten, dict(flop_registry)
    # Fused attention on a CPU counts as the GPU's.
    for cpu, gpu in (
        (aten._scaled_dot_product_flash_attention_for_cpu, aten._scaled_dot_product_flash_attention),
        (aten._scaled_dot_product_flash_attention_for_cpu_backward, aten._scaled_dot_product_flash_attention_backward),
    ):
        formulas.setdefault(cpu, flop_registry[gpu])
    packed = getattr(torch.ops.mkldnn, "_linear_pointwise", None)  # a product with a weight in oneDNN's layout
    if packed is not None:
        formulas.setdefault(packed, lambda x, *_, out_val, **__: 2 * x.numel() * out_val.shape[-1])
    return formulas
