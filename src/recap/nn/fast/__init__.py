"""Only for speed: everything here has a plain twin in torch with the same result up to rounding.

    Linear, product, fixed_weights   pre-packed weights for the few rows of decoding
    multiplied                       products by oneDNN, which those of `Linear` are
    deferred_weight_grad             one weight gradient for a loop over time steps
    PackedIndex                      the tokens of padded captions without the padding
    attended                         attention with a quick gradient in bf16
    as_autocast                      inputs of a hand-written function, in one type

`RECAP_FAST=0` takes the twins.
"""

from recap.nn.fast.attention import attended
from recap.nn.fast.linear import Linear, deferred_weight_grad, fixed_weights, multiplied, product
from recap.nn.fast.switch import as_autocast, fast, prepare_compilation, uncompiled
from recap.nn.fast.tokens import PackedIndex

__all__ = [
    "Linear",
    "PackedIndex",
    "as_autocast",
    "attended",
    "deferred_weight_grad",
    "fast",
    "fixed_weights",
    "multiplied",
    "prepare_compilation",
    "product",
    "uncompiled",
]
