"""Products of float32 matrices by oneDNN, where torch's linear layers multiply through MKL.

MKL takes AVX2 on processors of other makers than its own. On one core of an EPYC with AVX-512 (Zen 5) a product of
500 rows of 1,024 runs at 95 GFLOP/s by MKL and at 200 to 220 by oneDNN, forward and for both gradients, one of 50 rows
at 75 and 125 to 150; on Zen 4 oneDNN is 5 to 20 % faster. The results are those of float32 products summed in another
order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from recap.nn.fast.switch import fast

MIN_PRODUCTS = 2**23  # multiplications of a product from which it is worth a call from Python


def multiplied(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [R, P] times weight [Q, P], plus bias [Q] -> [R, Q]; no gradient passes."""
    if x.numel() * len(weight) < MIN_PRODUCTS or not suits_onednn(x, weight):
        return linear(x, weight, bias)
    return onednn_product(unbroken(x), unbroken(weight), bias)


def learned_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """As `multiplied`, x [..., P] -> [..., Q], with gradients of all three."""
    if x.numel() * len(weight) < MIN_PRODUCTS or not suits_onednn(x, weight):
        return linear(x, weight, bias)
    out: Tensor = _Product.apply(x.reshape(-1, x.shape[-1]), weight, bias)
    return out.view(*x.shape[:-1], len(weight))


class _Product(torch.autograd.Function):
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
    return matrix.mT.contiguous().mT if matrix.stride(0) == 1 else matrix.contiguous()  # lines as they lie: no turning


def suits_onednn(x: Tensor, weight: Tensor) -> bool:
    """Return whether both are float32 on a CPU and this torch can multiply them by oneDNN."""
    return (
        weight.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not weight.is_inference()
        and not torch.compiler.is_compiling()
        and fast()
        and has_onednn()
    )


def has_onednn() -> bool:
    """Return whether this torch has oneDNN and the operators used here, which are not part of its public interface."""
    operators = torch.ops.mkldnn
    return torch.backends.mkldnn.is_available() and all(
        hasattr(operators, name) for name in ("_reorder_linear_weight", "_linear_pointwise")
    )


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x [R, P] times weight [Q, P], as it is or packed, plus bias [Q] -> [R, Q]."""
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return out


def packed(weight: Tensor) -> Tensor:
    """Return a copy of a weight [Q, P] in oneDNN's layout."""
    found: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return found
