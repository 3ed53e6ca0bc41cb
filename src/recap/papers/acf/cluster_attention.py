"""Multi-head attention under a clustering matrix C (ACF, Eq. 2), in the four ways in which the equation can be read."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recap.nn.attention import KeyValue, MultiHeadAttention
from recap.nn.masks import MASKED_SCORE
from recap.nn.rows import Rows, fold, fold_mask, unfold

_LEAST = -80.0  # a log C below this counts as this: C is 1e-35, and `exp` of less is 30 times as slow on a CPU
READINGS = ("multiply", "renormalize", "double_softmax", "logit_scale")


class ClusterAttention(MultiHeadAttention):
    """Attention of which C weakens what is in other clusters. With A = softmax(Q K^T / sqrt(K)), the weights are

        multiply        A * C, which sum to at most 1 (the released code, Tree-Transformer)
        renormalize     softmax(Q K^T / sqrt(K) + log C), which is A * C divided by its sum
        double_softmax  softmax(A * C): Eq. 2 to the letter, as Eq. 1 calls the softmax A; nearly uniform
        logit_scale     softmax(Q K^T / sqrt(K) * C): A of Eq. 2 as the scores; C = 0 is a score of 0, and hides nothing

    Args:
        d_model, heads: as in `MultiHeadAttention`.
        reading: one of these.
    """

    def __init__(self, *, d_model: int, heads: int, reading: str) -> None:
        super().__init__(d_model=d_model, heads=heads)
        if reading not in READINGS:
            raise ValueError(f"unknown reading {reading!r} of Eq. 2; known are {[*READINGS]}")
        self.reading = reading

    def forward(
        self,
        query: Rows,
        key_value: KeyValue,
        *,
        attn_mask: Tensor | None = None,
        attn_bias: Tensor | None = None,
        log_clusters: Tensor | None = None,
    ) -> Rows:
        """Attend, as `MultiHeadAttention.forward`, under log C, broadcastable to [B, C, T, N]; None: C = 1.

        A bias goes without clusters.
        """
        if log_clusters is None:
            return super().forward(query, key_value, attn_mask=attn_mask, attn_bias=attn_bias)
        if self.reading == "renormalize":
            return super().forward(query, key_value, attn_mask=attn_mask, attn_bias=log_clusters[:, :, None])
        q = query.map(self.query).split_heads(self.heads)  # [B, C, H, T, K]
        k, v = key_value
        captions, shared = q.shape[1], k.shape[1] < q.shape[1]
        k, v = (x[:, 0] if shared else x.flatten(0, 1) for x in (k, v))  # [B', H, N, K]
        mask = None if attn_mask is None else fold_mask(attn_mask, query.shape, shared)  # [B', 1, R or 1, N]
        weights = self._weights(fold(q, shared), k, mask, fold(clusters(log_clusters)[:, :, None], shared))
        return query.merge_heads(unfold(weights @ v, captions, shared)).map(self.output)

    def _weights(self, query: Tensor, key: Tensor, mask: Tensor | None, clusters: Tensor) -> Tensor:
        """Query [B', H, R, K], keys [B', H, N, K] and C [B', 1, R, N] -> [B', H, R, N]."""
        scores = (query * query.shape[-1] ** -0.5) @ key.mT
        if self.reading == "logit_scale":
            return _softmax(scores * clusters, mask)
        weighted = _softmax(scores, mask) * clusters
        return _softmax(weighted, mask) if self.reading == "double_softmax" else weighted


def clusters(log_clusters: Tensor) -> Tensor:
    """log C -> C."""
    return nn.functional.threshold(log_clusters, _LEAST, _LEAST).exp()  # a gradient 4 times as quick as that of `clamp`


def _softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    return torch.softmax(scores if mask is None else scores.masked_fill(~mask, MASKED_SCORE), -1)
