"""Only for speed: everything here has a plain twin in torch with the same result up to rounding.

    Linear, product, fixed_weights   pre-packed weights for the few rows of decoding
    multiplied                       products by oneDNN, which those of `Linear` are
    deferred_weight_grad             one weight gradient for a loop over time steps
    as_autocast                      inputs of a hand-written function, in one type

Elsewhere, because they belong there: padding left out (`recap.nn.rows.PackedIndex`), and a quick gradient of attention
in bf16 (`recap.nn.attention.attended`). `RECAP_FAST=0` takes the twins.
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
