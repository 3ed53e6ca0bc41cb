"""Attention forward and backward in bf16, against torch's fused form: `attention.bf16`."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.figures import Case
from benchmarks.shapes import CAPTIONS, IMAGES, REGIONS
from recap.nn.attention import attended

HEADS, WIDTH, WORDS = 8, 64, 13
SHAPES = (
    f"{IMAGES} images of {REGIONS} regions, {IMAGES * CAPTIONS} captions of {WORDS} tokens, "
    f"{HEADS} heads of {WIDTH}"
)


def bf16() -> Case:
    """An encoder's attention over regions, and a decoder's over words."""
    torch.manual_seed(0)
    inputs = [_vectors(IMAGES, REGIONS), _vectors(IMAGES * CAPTIONS, WORDS)]

    def passes(attention: Callable[..., Tensor]) -> list[Tensor]:
        gradients: list[Tensor] = []
        for vectors in inputs:
            gradients += torch.autograd.grad(attention(*vectors).sum(), vectors)
        return gradients

    def ours() -> list[Tensor]:
        return passes(lambda query, key, value: attended(query, key, value, None))

    def reference() -> list[Tensor]:
        return passes(scaled_dot_product_attention)

    most = max((a - b).abs().max().item() for a, b in zip(ours(), reference(), strict=True))
    return Case(
        "attention.bf16", SHAPES, ours, reference, f"gradients differ by {most:.1e} at most"
    )


def _vectors(rows: int, tokens: int) -> list[Tensor]:
    return [
        torch.randn(rows, HEADS, tokens, WIDTH, dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    ]
