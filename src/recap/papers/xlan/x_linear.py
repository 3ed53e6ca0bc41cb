"""X-Linear attention: bilinear pooling of a query with every key, spatial and channel attention.

Paper: Pan et al. 2020, "X-Linear Attention Networks for Image Captioning", Eq. 2-9. With s the activation and * the
elementwise product, for each of H heads (the paper prints one; the released code has 8):

    B_i  = s(W_k k_i) * s(W_q^k Q)                        query with key                             (2)
    B'_i = ReLU(W_B^k B_i),  b_i = softmax_i(W_b B'_i)    spatial attention                          (3)
    c    = sigmoid(W_e mean_i(B'_i))                      channel attention                          (4-5)
    out  = c * sum_i b_i (s(W_v v_i) * s(W_q^v Q))        query with value                           (6)

s is ReLU, or an exponential unit (Eq. 9: then the Taylor series holds every order of interaction). As in the released
code every projection is group-normalized, one group per head, and W_B^k, W_b, W_e are shared by the heads. The query of
Eq. 6 does not depend on i and is taken out of the sum. Stacked blocks (Eq. 7-8) pass the output on as the next query
and mix it into keys and values: `FeatureMix`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from recap.nn.attention import Attention, KeyValue, head_width
from recap.nn.fast import Dropout, Linear, fast, product
from recap.nn.layers import make_activation
from recap.nn.masks import MASKED_SCORE
from recap.nn.rows import Rows, fold, fold_mask, unfold
from recap.papers.xlan.bilinear import bilinear_pool
from recap.papers.xlan.settings import XLinearSizes


class HeadNorm(nn.GroupNorm):
    """torch's group norm of vectors [R, D], one group per head, with the same parameters.

    With one number per channel torch's own takes its slowest path on a CPU. Here the heads are rows of a layer norm,
    and each channel's weight and bias follow: twice as fast, forward and backward, and nothing more is kept.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[R, D] -> [R, D]."""
        if not fast() or x.device.type != "cpu" or x.dtype != self.weight.dtype or torch.compiler.is_compiling():
            return super().forward(x)
        return _HeadNorm.apply(x, self.weight, self.bias, self.num_groups, self.eps)


class _HeadNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, heads: int, eps: float) -> Tensor:
        split = x.unflatten(-1, (heads, -1))  # [R, H, K]
        normal, _, scale = torch.native_layer_norm(split, split.shape[-1:], None, None, eps)
        ctx.save_for_backward(normal, scale, weight)
        return torch.addcmul(bias, normal.view_as(x), weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        normal, scale, weight = ctx.saved_tensors
        d_weight = (grad * normal.flatten(-2)).sum(0)
        d_normal = (grad * weight).view_as(normal)
        # d_x = scale (d_n - mean d_n - n mean(n d_n))
        along = (d_normal * normal).mean(-1, keepdim=True)
        d_x = d_normal.sub_(d_normal.mean(-1, keepdim=True)).addcmul_(normal, along, value=-1).mul_(scale)
        return d_x.view_as(grad), d_weight, grad.sum(0), None, None


CELU_ALPHA = 1.3  # scale of the exponential units, as released


class Projection(nn.Module):
    """Linear, activation, group norm with one group per head: [..., D] -> [..., D]."""

    def __init__(self, *, d_model: int, heads: int, activation_name: str, alpha: float) -> None:
        super().__init__()
        self.linear = Linear(d_model, d_model)
        self.activation = make_activation(activation_name, known=("relu", "elu", "celu"), alpha=alpha)
        self.norm = HeadNorm(heads, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]; every vector is normalized by itself."""
        y = self.activation(self.linear(x))
        return self.norm(y.flatten(0, -2)).unflatten(0, x.shape[:-1])


class XLinear(Attention):
    """One X-Linear attention block.

    Args:
        d_model: width D, divisible by `heads`; the paper's D_B.
        heads: H.
        d_joint: width of B' within a head; H * d_joint is the paper's D_c.
        activation_name: relu, elu or celu.
        alpha: scale of the exponential unit.
        dropout: on B'.

    Attributes:
        weights: an identity that the spatial attention weights pass through, [B, C, H, T, N]; see
            `recap.models.explained`.
    """

    def __init__(
        self,
        *,
        d_model: int,
        heads: int,
        d_joint: int,
        activation_name: str = "celu",
        alpha: float = CELU_ALPHA,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        width = head_width(d_model, heads)
        self.heads = heads

        def projection() -> Projection:
            return Projection(d_model=d_model, heads=heads, activation_name=activation_name, alpha=alpha)

        self.query_key, self.key, self.query_value, self.value = (projection() for _ in range(4))
        self.joint = nn.Linear(width, d_joint)
        self.spatial = nn.Linear(d_joint, 1)
        self.channel = nn.Linear(d_joint, width)
        self.dropout = Dropout(dropout)
        self.weights = nn.Identity()

    def key_value(self, source: Rows) -> KeyValue:
        """Project what is attended to: rows of [B, C or 1, N, D] -> keys and values [B, C or 1, H, N, K]."""
        return self._project(self.key, source), self._project(self.value, source)

    def _project(self, projection: nn.Module, rows: Rows) -> Tensor:
        return rows.map(projection).split_heads(self.heads)

    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Attend, as `Attention.forward`."""
        captions, shared = query.shape[1], key_value[0].shape[1] == 1
        k, v = (x[:, 0] if shared else x.flatten(0, 1) for x in key_value)  # [B', H, N, K]
        if attn_mask is None:
            attn_mask = k.new_ones(1, 1, 1, k.shape[2], dtype=torch.bool)
        mask = fold_mask(attn_mask, query.shape, shared).expand(len(k), -1, -1, -1)  # [B', 1, R or 1, N]
        mean_weights = mask.to(v.dtype)
        mean_weights = mean_weights / mean_weights.sum(-1, keepdim=True).clamp(min=1)
        q = fold(self._project(self.query_key, query), shared)  # [B', H, R, K]
        scores, mean = self._pool(q, k, mean_weights)  # [B', H, R, N], [B', H, R, J]
        spatial_weights = scores.masked_fill(~mask, MASKED_SCORE).softmax(-1)
        q = fold(self._project(self.query_value, query), shared)
        attended = q * (spatial_weights.to(v.dtype) @ v) * self.channel(mean).sigmoid()
        self.weights(unfold(spatial_weights, captions, shared))
        return query.merge_heads(unfold(attended, captions, shared))

    def _pool(self, q: Tensor, k: Tensor, mean_weights: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of rows [B', H, R, K] against keys [B', H, N, K], and the weighted means of their B'."""
        weight, bias, spatial = self.joint.weight, self.joint.bias, self.spatial.weight[0]
        dropout = self.dropout.p if self.training else 0.0
        scores, mean = bilinear_pool(q, k, weight, bias, spatial, mean_weights, dropout=dropout)
        return scores + self.spatial.bias, mean


def x_linear(settings: XLinearSizes) -> partial[XLinear]:
    """Return what makes the blocks of a model, one like the other."""
    return partial(
        XLinear,
        d_model=settings.d_model,
        heads=settings.heads,
        d_joint=settings.d_joint,
        activation_name=settings.activation,
        alpha=settings.alpha,
        dropout=settings.joint_dropout,
    )


class FeatureMix(nn.Module):
    """Mix an attended vector g into the vectors it was attended from (Eq. 8; the code updates keys and values as one).

    x_i <- norm(dropout(ReLU(W [g ; x_i])) + x_i)
    """

    def __init__(self, *, d_model: int, dropout: float) -> None:
        super().__init__()
        self.linear = Linear(2 * d_model, d_model)
        self.dropout = Dropout(dropout)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, g: Tensor, x: Tensor) -> Tensor:
        """[B, C, 1 or N, D] and [B, C, N, D], or both packed -> as x; a g shared by all x is multiplied once."""
        if g.shape == x.shape:
            both = self.linear(torch.cat([g, x], -1))
        else:
            of_g, of_x = self.linear.weight.chunk(2, 1)
            both = product(g, of_g, self.linear.bias) + product(x, of_x, None)
        return self.norm(self.dropout(both.relu_()) + x)
