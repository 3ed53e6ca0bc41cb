"""X-Linear attention: bilinear pooling of a query with every key, attention over places and over channels.

Paper: Pan et al. 2020, "X-Linear Attention Networks for Image Captioning", Eq. 2-9. With s the activation and * the
product entry by entry, for each of H heads (the paper prints one; the released code has 8):

    B_i  = s(W_k k_i) * s(W_q^k Q)                        query with key                             (2)
    B'_i = ReLU(W_B^k B_i),  b_i = softmax_i(W_b B'_i)    attention over places                      (3)
    c    = sigmoid(W_e mean_i(B'_i))                      attention over channels                    (4-5)
    out  = c * sum_i b_i (s(W_v v_i) * s(W_q^v Q))        query with value                           (6)

s is ReLU, or an exponential unit (Eq. 9: then the Taylor series holds every order of interaction). As in the released
code every projection is group-normalised, one group a head, and W_B^k, W_b, W_e are shared by the heads. The query of
Eq. 6 does not depend on i and is taken out of the sum. Stacked blocks (Eq. 7-8) pass the output on as the next query
and mix it into keys and values: `FeatureMix`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from recap.layers.attention import HIDDEN_SCORE, KeyValue, merge_heads, shared_product, split_heads


def activation(name: str, alpha: float) -> nn.Module:
    """Return relu, elu or celu with its scale.

    Raises:
        ValueError: another name.
    """
    makers: dict[str, Callable[[], nn.Module]] = {
        "relu": nn.ReLU,
        "elu": lambda: nn.ELU(alpha),
        "celu": lambda: nn.CELU(alpha),
    }
    if name not in makers:
        raise ValueError(f"unknown activation {name!r}; known are {[*makers]}")
    return makers[name]()


class Projection(nn.Module):
    """Linear, activation, group norm with a group a head: [B, C, T, D] -> [B, C, H, T, K]."""

    def __init__(self, *, d_model: int, heads: int, activation_name: str, alpha: float) -> None:
        super().__init__()
        self.linear = nn.Linear(d_model, d_model)
        self.activation = activation(activation_name, alpha)
        self.norm = nn.GroupNorm(heads, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Project; every vector is normalised by itself."""
        y = self.activation(self.linear(x))
        return split_heads(self.norm(y.flatten(0, -2)).unflatten(0, x.shape[:-1]), self.norm.num_groups)


class XLinear(nn.Module):
    """One X-Linear attention block.

    Args:
        d_model: width D, divisible by `heads`; the paper's D_B.
        heads: H.
        d_joint: width of B' within a head; H * d_joint is the paper's D_c.
        activation_name: relu, elu or celu.
        alpha: scale of the exponential unit.
        dropout: on B'.

    Attributes:
        weights: an identity that the attention over places passes through, [B, C, H, T, N]; a forward hook on it sees
            where the block looks (see `recap.models.attention_maps`).

    Raises:
        ValueError: D is not divisible by H.
    """

    def __init__(
        self,
        *,
        d_model: int,
        heads: int,
        d_joint: int,
        activation_name: str = "celu",
        alpha: float = 1.3,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if d_model % heads:
            raise ValueError(f"d_model {d_model} is not divisible by {heads} heads")

        def projection() -> Projection:
            return Projection(d_model=d_model, heads=heads, activation_name=activation_name, alpha=alpha)

        self.query_key, self.key, self.query_value, self.value = (projection() for _ in range(4))
        self.joint = nn.Linear(d_model // heads, d_joint)
        self.spatial = nn.Linear(d_joint, 1)
        self.channel = nn.Linear(d_joint, d_model // heads)
        self.dropout = nn.Dropout(dropout)
        self.weights = nn.Identity()

    def keys(self, source: Tensor) -> KeyValue:
        """Project what is attended to, once an image or word: [B, C or 1, N, D] -> two of [B, C or 1, H, N, K]."""
        return self.key(source), self.value(source)

    def forward(self, query: Tensor, keys: KeyValue, *, visible: Tensor) -> Tensor:
        """Attend.

        Args:
            query: [B, C, T, D].
            keys: keys and values, [B, C or 1, H, N, K].
            visible: broadcastable to [B, C, T, N], True where a row may look.

        Returns:
            [B, C, T, D].
        """
        k, v = keys
        pooled = self.query_key(query)[..., None, :] * k[..., None, :, :]  # [B, C, H, T, N, K]
        joint = self.dropout(torch.relu_(self.joint(pooled)))  # [B, C, H, T, N, J]
        seen = visible[:, :, None]  # [B, C or 1, 1, T or 1, N]
        scores = self.spatial(joint)[..., 0].masked_fill(~seen, HIDDEN_SCORE)
        places = self.weights(scores.softmax(-1))  # [B, C, H, T, N]
        share = seen.to(joint.dtype)
        share = share / share.sum(-1, keepdim=True).clamp(min=1)
        mean = (share[..., None, :] @ joint)[..., 0, :]  # [B, C, H, T, J]
        attended = self.query_value(query) * shared_product(places.to(v.dtype), v) * self.channel(mean).sigmoid()
        return merge_heads(attended)


class FeatureMix(nn.Module):
    """Mix an attended vector g into the vectors it was attended from (Eq. 8; the code updates keys and values as one).

    x_i <- norm(dropout(ReLU(W [g ; x_i])) + x_i)
    """

    def __init__(self, *, d_model: int, dropout: float) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, g: Tensor, x: Tensor) -> Tensor:
        """[B, C, 1 or N, D] and [B, C, N, D] -> [B, C, N, D]; a g shared by all x is multiplied once."""
        width = x.shape[-1]
        shared = linear(g, self.linear.weight[:, :width], self.linear.bias)
        own = linear(x, self.linear.weight[:, width:])
        return self.norm(self.dropout(torch.relu(shared + own)) + x)
