"""Bilinear pooling of queries with keys: what X-Linear attention computes of every pair, without keeping the pairs.

With B' = dropout(ReLU(W (q * k) + b)) for every query and key (Eq. 2-3), the block needs of B' only a
score, w . B', and a mean over the keys: `plain_bilinear_pool`. The fast form takes both a few images at a time, so that
q * k and what leads to B' stay in the processor's cache; the backward pass multiplies q * k again. Only B' is kept,
whose zeros tell ReLU and dropout.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout as torch_dropout
from torch.nn.functional import linear

from recap.nn.fast import as_autocast, dropout_mask, fast, multiplied, uncompiled

CHUNK = 2**21  # entries of q * k made at once: those that fit into a processor's cache
CHUNK_ON_GPU = 2**27  # 512 MiB: few and large kernels


@uncompiled
def bilinear_pool(
    q: Tensor, k: Tensor, weight: Tensor, bias: Tensor, spatial: Tensor, mean_weights: Tensor, *, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Score every pair of query and key, and average B' over the keys of each query, with dropout on B'.

    q [B, H, R, K], k [B, H, N, K], W [J, K], b and w [J], weights of the mean [B, 1, R or 1, N] -> scores [B, H, R, N]
    and means [B, H, R, J].
    """
    inputs = as_autocast(q.contiguous(), k.contiguous(), weight, bias, spatial, mean_weights)
    if not fast():
        return plain_bilinear_pool(*inputs, dropout=dropout)
    return _Pool.apply(*inputs, dropout)


def plain_bilinear_pool(
    q: Tensor, k: Tensor, weight: Tensor, bias: Tensor, spatial: Tensor, mean_weights: Tensor, *, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """As `bilinear_pool`, in torch's own operators: the definition."""
    joint = torch.relu(linear(q[:, :, :, None] * k[:, :, None], weight, bias))  # [B, H, R, N, J]
    joint = torch_dropout(joint, dropout)
    return joint @ spatial, (joint * mean_weights[..., None]).sum(3)


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        weight: Tensor,
        bias: Tensor,
        spatial: Tensor,
        mean_weights: Tensor,
        dropout: float,
    ) -> tuple[Tensor, Tensor]:
        learning = any(ctx.needs_input_grad)
        columns, width = k.shape[2], len(weight)
        scale = 1 / dropout_mask(q[:0], dropout)[1] if dropout else 1.0
        scaled, shift = weight * scale, bias * scale  # ReLU(s x) = s ReLU(x): dropout's factor costs nothing
        joint = []  # B' of each chunk
        scores = q.new_empty(*q.shape[:3], columns)
        means = q.new_empty(*q.shape[:3], width)
        for part in _chunks(q, columns):
            pair = _pairs(q[part], k[part])
            flat = multiplied(pair.view(-1, q.shape[-1]), scaled, shift).relu_()
            if dropout:
                flat.view(-1).mul_(dropout_mask(flat, dropout)[0])
            chunk = flat.view(*pair.shape[:-1], width)
            torch.mv(flat, spatial, out=scores[part].view(-1))
            rows = mean_weights[part][:, :, :, None].expand(*pair.shape[:3], 1, -1)
            means[part].copy_(torch.matmul(rows, chunk)[:, :, :, 0])
            if learning:
                joint.append(chunk)
        ctx.save_for_backward(q, k, weight, spatial, mean_weights, *joint)
        ctx.scale = scale
        return scores, means

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, weight, spatial, mean_weights, *joint = ctx.saved_tensors
        d_scores, d_means = grads
        scaled, width = weight * ctx.scale, len(weight)
        d_q, d_k = torch.empty_like(q), torch.empty_like(k)
        d_weight, d_bias, d_spatial = (torch.zeros_like(x) for x in (weight, spatial, spatial))
        for part, chunk in zip(_chunks(q, k.shape[2]), joint, strict=True):
            d_chunk_scores = d_scores[part]
            d_spatial += chunk.view(-1, width).mT @ d_chunk_scores.reshape(-1)
            inner = d_means[part][:, :, :, None] * mean_weights[part][..., None]
            inner = inner.addcmul_(d_chunk_scores[..., None], spatial)
            inner = torch.ops.aten.threshold_backward(inner, chunk, 0).view(-1, width)  # 0 where B' is
            d_bias += inner.sum(0)
            pair = _pairs(q[part], k[part])
            d_weight.addmm_(inner.mT, pair.view(-1, q.shape[-1]))
            d_pair = multiplied(inner, scaled.mT).view(pair.shape)  # of q * k
            torch.sum(torch.mul(d_pair, k[part][:, :, None], out=pair), 3, out=d_q[part])
            torch.sum(d_pair.mul_(q[part][:, :, :, None]), 2, out=d_k[part])
        return d_q, d_k, d_weight * ctx.scale, d_bias * ctx.scale, d_spatial, None, None


def _chunks(q: Tensor, columns: int) -> Iterator[slice]:
    """Cut the images so that each chunk has about as many entries of pairs as suit the device."""
    entries = CHUNK if q.device.type == "cpu" else CHUNK_ON_GPU
    size = max(1, entries // max(1, q[0].numel() * columns)) if len(q) else 1
    return (slice(start, start + size) for start in range(0, len(q), size))


def _pairs(q: Tensor, k: Tensor) -> Tensor:
    """q * k of every query and key: [B, H, R, N, K]."""
    return q[:, :, :, None] * k[:, :, None]
