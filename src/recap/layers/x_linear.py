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

from recap.layers.attention import (
    HIDDEN_SCORE,
    KeyValue,
    captions_as_rows,
    merge_heads,
    rows_as_captions,
    split_heads,
)
from recap.layers.fast.bilinear import pool
from recap.layers.fast.dropout import Dropout
from recap.layers.fast.linear import Linear
from recap.layers.fast.packing import Words, pack, spread


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
        self.linear = Linear(d_model, d_model)
        self.activation = activation(activation_name, alpha)
        self.norm = nn.GroupNorm(heads, d_model)

    def forward(self, x: Tensor, words: Words | None = None) -> Tensor:
        """Project, also packed words [R, D]; every vector is normalised by itself."""
        y = self.activation(self.linear(x))
        y = self.norm(y.flatten(0, -2)).unflatten(0, x.shape[:-1])
        return split_heads(spread(y, words), self.norm.num_groups)


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
        self.dropout = Dropout(dropout)
        self.weights = nn.Identity()

    def keys(self, source: Tensor, words: Words | None = None) -> KeyValue:
        """Project what is attended to, once an image or word: [B, C or 1, N, D] -> two of [B, C or 1, H, N, K]."""
        return self.key(source, words), self.value(source, words)

    def forward(self, query: Tensor, keys: KeyValue, *, visible: Tensor, words: Words | None = None) -> Tensor:
        """Attend.

        Args:
            query: [B, C, T, D], or packed [R, D].
            keys: keys and values, [B, C or 1, H, N, K].
            visible: broadcastable to [B, C, T, N], True where a row may look.
            words: how the query is packed, or None.

        Returns:
            [B, C, T, D], or packed as the query.
        """
        captions, length = (query.shape if words is None else words.shape)[1:3]
        shared = keys[0].shape[1] == 1
        rows = captions_as_rows if shared else _captions_as_images
        k, v = (x[:, 0] if shared else x.flatten(0, 1) for x in keys)  # [B', H, N, K], B' = B or B * C
        seen = _rows_of_mask(visible, captions, length, shared)  # [B', 1, R or 1, N]
        share = seen.to(v.dtype)
        share = share / share.sum(-1, keepdim=True).clamp(min=1)  # of the mean over what a row may see
        scores, mean = self._pool(rows(self.query_key(query, words)), k, share)  # [B', H, R, N], [B', H, R, J]
        places = scores.masked_fill(~seen, HIDDEN_SCORE).softmax(-1)
        attended = rows(self.query_value(query, words)) * (places.to(v.dtype) @ v) * self.channel(mean).sigmoid()
        self.weights(_captions(places, captions, shared))
        return pack(merge_heads(_captions(attended, captions, shared)), words)

    def _pool(self, q: Tensor, k: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of rows [B', H, R, K] against keys [B', H, N, K], and the means of their B' with `share`."""
        weight, bias, spatial, shift = (
            x.to(q.dtype) for x in (self.joint.weight, self.joint.bias, self.spatial.weight[0], self.spatial.bias)
        )
        dropout = self.dropout.p if self.training else 0.0
        scores, mean = pool(q, k.to(q.dtype), weight, bias, spatial, share, dropout=dropout)
        return scores + shift, mean


def _captions_as_images(x: Tensor) -> Tensor:
    """[B, C, H, T, K] -> [B * C, H, T, K]: every caption has keys of its own."""
    return x.flatten(0, 1)


def _captions(x: Tensor, captions: int, shared: bool) -> Tensor:
    """Undo `captions_as_rows` or `_captions_as_images`: -> [B, C, H, T, ...]."""
    return rows_as_captions(x, captions) if shared else x.unflatten(0, (-1, captions))


def _rows_of_mask(visible: Tensor, captions: int, words: int, shared: bool) -> Tensor:
    """Bring a mask, broadcastable to [B, C, T, N], to the rows of the keys: [B', 1, R or 1, N]."""
    if shared and visible.shape[1:3] == (1, 1):
        return visible
    whole = visible.expand(-1, captions, words, -1)
    return whole.flatten(1, 2)[:, None] if shared else whole.flatten(0, 1)[:, None]


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
            both = linear(g, of_g, self.linear.bias) + linear(x, of_x)
        return self.norm(self.dropout(both.relu_()) + x)
