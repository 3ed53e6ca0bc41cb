"""Additive attention (Xu et al. 2015): a_i = w^T s(W_k k_i + W_q Q), softmax over i."""

from __future__ import annotations

from torch import Tensor, nn

from recap.nn.activations import activation as make_activation
from recap.nn.attention import Attention, KeyValue
from recap.nn.fast import Linear
from recap.nn.masks import MASKED_SCORE
from recap.nn.rows import Rows


class AdditiveAttention(Attention):
    """Conventional attention of a query over image vectors; only W_k has a bias. It has one head and no axis for it.

    Args:
        d_query: width of the query.
        d_source: width F of the vectors attended to.
        d_hidden: width A of the sum.
        activation: s, tanh (paper) or relu.

    Attributes:
        weights: an identity that the attention weights pass through, [B, C, T, N]; see `recap.models.attention_maps`.
    """

    def __init__(self, *, d_query: int, d_source: int, d_hidden: int, activation: str = "tanh") -> None:
        super().__init__()
        self.activation = make_activation(activation, known=("tanh", "relu"))
        self.key = Linear(d_source, d_hidden)
        self.query = Linear(d_query, d_hidden, bias=False)
        self.score = nn.Linear(d_hidden, 1, bias=False)
        self.weights = nn.Identity()

    def key_value(self, source: Rows) -> KeyValue:
        """Project what is attended to: [B, 1, N, F] -> keys [B, 1, N, A], and the source as values [B, 1, N, F]."""
        return source.map(self.key).padded(), source.padded()

    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Attend: query [B, C, T, Q], keys [B, 1, N, A], values [B, 1, N, F] -> [B, C, T, F]; see `Attention`."""
        k, v = key_value
        q = query.map(self.query).padded()
        scores = self.score(self.activation(k[..., None, :, :] + q[..., None, :]))[..., 0]  # [B, C, T, N]
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, MASKED_SCORE)
        weights = self.weights(scores.softmax(-1))
        attended = weights.to(v.dtype).flatten(1, 2) @ v[:, 0]  # captions are query rows: the image is not copied
        return query.like(attended.unflatten(1, weights.shape[1:3]))
