"""Only for speed: everything here has a plain twin in torch, which `RECAP_FAST=0` takes.

Elsewhere, because they belong there: padding left out (`recap.nn.rows.PackedIndex`), and a quick gradient of attention
in bf16 (`recap.nn.attention.attended`).
"""

from recap.nn.fast.linear import Linear, deferred_weight_grad, fixed_weights, multiplied, product
from recap.nn.fast.switch import as_autocast, fast, prepare_compilation, uncompiled

__all__ = [
    "Linear",
    "as_autocast",
    "deferred_weight_grad",
    "fast",
    "fixed_weights",
    "multiplied",
    "prepare_compilation",
    "product",
    "uncompiled",
]
