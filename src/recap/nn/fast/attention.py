"""Scaled dot-product attention whose gradient is quick in bf16 on a CPU.

There the gradient of torch's fused attention takes 8 to 20 times as long in bf16 as in float32 (torch 2.13: 56 ms
against 7 for 20 images of 49 vectors, 139 against 7 for 100 captions of 13 tokens), more than all else of a
Transformer's step together. The unfused one, two products and a softmax, takes as long as float32 does.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from recap.nn.fast.switch import fast
from recap.nn.masks import is_causal


def attended(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(Q K^T / sqrt(K) + mask) V of query [B, H, T, K], key and value [B, H, N, K] -> [B, H, T, K]."""
    slow = query.dtype == torch.bfloat16 and query.device.type == "cpu" and query.requires_grad
    with sdpa_kernel(SDPBackend.MATH) if slow and fast() else nullcontext():
        if mask is not None and is_causal(mask):  # a GPU takes its fastest kernel; a CPU gives the same bits
            return scaled_dot_product_attention(query, key, value, is_causal=True)
        return scaled_dot_product_attention(query, key, value, attn_mask=mask)
