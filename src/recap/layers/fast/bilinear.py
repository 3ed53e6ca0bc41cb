"""Bilinear pooling of queries with keys: what X-Linear attention computes of every pair, without keeping the pairs.

With B' = dropout(ReLU(W (q * k) + b)) for every query and key (X-LAN paper, Eq. 2-3), the block needs of B' only a
score, w . B', and a mean over the keys. Both are taken a few images at a time, so that q * k and what leads to B' stay
in the processor's cache; the backward pass multiplies q * k anew. B' alone is kept, whose zeros tell ReLU and dropout.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor

from recap.layers.fast.dropout import keep
from recap.layers.fast.uncompiled import uncompiled

PIECE = 2**21  # entries of q * k made at once


@uncompiled
def pool(
    q: Tensor, k: Tensor, weight: Tensor, bias: Tensor, spatial: Tensor, share: Tensor, *, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Score every pair of query and key, and average B' over the keys of each query.

    Args:
        q: [B, H, R, K]; k: [B, H, N, K].
        weight: W, [J, K]; bias: b, [J]; spatial: w, [J].
        share: weights of the mean, [B, 1, R or 1, N].
        dropout: on B'.

    Returns:
        Scores [B, H, R, N] and means [B, H, R, J].
    """
    pooled = _Pool.apply(q.contiguous(), k.contiguous(), weight, bias, spatial, share, dropout)
    return cast(tuple[Tensor, Tensor], pooled)


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, weight: Tensor, bias: Tensor, spatial: Tensor, share: Tensor, dropout: float
    ) -> tuple[Tensor, Tensor]:
        learning = any(ctx.needs_input_grad)
        columns, width = k.shape[2], len(weight)
        scale = 1 / keep(q[:0], dropout)[1] if dropout else 1.0
        scaled, shift = weight.mT * scale, bias * scale  # ReLU(s x) = s ReLU(x): dropout's factor costs nothing
        joint = q.new_empty(*q.shape[:3], columns, width) if learning else q.new_empty(0)
        scores = q.new_empty(*q.shape[:3], columns)
        means = q.new_empty(*q.shape[:3], width)
        for part in _pieces(q, columns):
            pair = _pairs(q[part], k[part])
            flat = torch.addmm(shift, pair.view(-1, q.shape[-1]), scaled, out=_flat(joint[part], width, learning))
            flat.relu_()
            if dropout:
                flat.view(-1).mul_(keep(flat, dropout)[0])
            piece = flat.view(*pair.shape[:-1], width)
            torch.mv(flat, spatial, out=scores[part].view(-1))
            _mean(piece, share[part], means[part])
        ctx.save_for_backward(q, k, weight, spatial, share, joint)
        ctx.scale = scale
        return scores, means

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, weight, spatial, share, joint = ctx.saved_tensors
        of_scores, of_means = gradients
        scaled, width = weight * ctx.scale, len(weight)
        d_q, d_k = torch.empty_like(q), torch.empty_like(k)
        d_weight, d_bias, d_spatial = (torch.zeros_like(x) for x in (weight, spatial, spatial))
        for part in _pieces(q, k.shape[2]):
            piece, grade = joint[part], of_scores[part]
            d_spatial += piece.view(-1, width).mT @ grade.reshape(-1)
            inner = of_means[part][:, :, :, None] * share[part][..., None]
            inner = inner.addcmul_(grade[..., None], spatial)
            inner = torch.ops.aten.threshold_backward(inner, piece, 0).view(-1, width)  # 0 where B' is
            d_bias += inner.sum(0)
            pair = _pairs(q[part], k[part])
            d_weight.addmm_(inner.mT, pair.view(-1, q.shape[-1]))
            back = inner @ scaled  # of q * k
            back = back.view(pair.shape)
            torch.sum(torch.mul(back, k[part][:, :, None], out=pair), 3, out=d_q[part])
            torch.sum(back.mul_(q[part][:, :, :, None]), 2, out=d_k[part])
        return d_q, d_k, d_weight * ctx.scale, d_bias * ctx.scale, d_spatial, None, None


def _pieces(q: Tensor, columns: int) -> Iterator[slice]:
    """Cut the images so that each piece has about PIECE pairs' entries."""
    size = max(1, PIECE // max(1, q[0].numel() * columns)) if len(q) else 1
    return (slice(start, start + size) for start in range(0, len(q), size))


def _pairs(q: Tensor, k: Tensor) -> Tensor:
    """q * k of every query and key: [B, H, R, N, K]."""
    return q[:, :, :, None] * k[:, :, None]


def _flat(joint: Tensor, width: int, kept: bool) -> Tensor | None:
    return joint.view(-1, width) if kept else None


def _mean(piece: Tensor, share: Tensor, out: Tensor) -> None:
    """[B, H, R, N, J] averaged with [B, 1, R or 1, N] into [B, H, R, J]."""
    rows = share[:, :, :, None].expand(*piece.shape[:3], 1, -1)
    out.copy_(torch.matmul(rows, piece)[:, :, :, 0])
