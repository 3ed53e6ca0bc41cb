"""Scaled dot-product attention with widths of its own per head, with or without an output projection.

`MultiHeadAttention` is the common form; these are the parts of attentions in other forms. Their weights can be seen.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from recap.nn.attention import Attention, AttentionWeights, KeyValue
from recap.nn.fast import Dropout, Linear, attended
from recap.nn.folding import fold, fold_mask, unfold
from recap.nn.masks import MASKED_SCORE
from recap.nn.rows import Rows


class DotProductAttention(Attention):
    """dropout(softmax(Q K^T / sqrt(d_key))) V, the heads concatenated, without an output projection.

    Args:
        d_model: width D of queries and of what is attended to.
        heads: number of heads H.
        d_key, d_value: widths of a head's keys and values.
        dropout: on the attention weights.

    Attributes:
        weights: an identity that the attention weights pass through, [B, C, H, T, N], once a hook watches it
            (`recap.models.attention_maps`); unwatched weights that are not dropped stay within torch's fused attention.
    """

    def __init__(self, *, d_model: int, heads: int, d_key: int, d_value: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query = Linear(d_model, heads * d_key)
        self.key = Linear(d_model, heads * d_key)
        self.value = Linear(d_model, heads * d_value)
        self.weights = AttentionWeights()
        self.dropout = Dropout(dropout)

    def key_value(self, source: Rows) -> KeyValue:
        """Rows of [B, C or 1, N, D] -> keys [B, C or 1, H, N, d_key] and values [B, C or 1, H, N, d_value]."""
        key, value = source.map(self.key), source.map(self.value)
        return key.split_heads(self.heads), value.split_heads(self.heads)

    def query_heads(self, query: Rows) -> Tensor:
        """Rows of [B, C, T, D] -> Q, [B, C, H, T, d_key]; once for several `attend`."""
        return query.map(self.query).split_heads(self.heads)

    def attend(self, q: Tensor, key_value: KeyValue, attn_mask: Tensor | None) -> Tensor:
        """Q of `query_heads`, keys and values of `key_value` -> [B, C, H, T, d_value]; see `Attention.forward`."""
        captions, shared = q.shape[1], key_value[0].shape[1] < q.shape[1]
        k, v = (x[:, 0] if shared else x.flatten(0, 1) for x in key_value)  # [B', H, N, K]
        rows = fold(q, shared)  # [B', H, R, K]
        mask = None if attn_mask is None else fold_mask(attn_mask, (len(q), captions, q.shape[3]), shared)
        if not self.weights.hooked and not (self.training and self.dropout.p):
            return unfold(attended(rows, k, v, mask), captions, shared)
        scores = rows / math.sqrt(k.shape[-1]) @ k.mT
        if mask is not None:
            scores = scores.masked_fill(~mask, MASKED_SCORE)
        weights = self.weights(unfold(scores.softmax(-1), captions, shared))
        return unfold(fold(self.dropout(weights), shared) @ v, captions, shared)

    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Attend, see `Attention.forward`: rows of [B, C, T, D] -> rows of [B, C, T, H * d_value]."""
        return query.merge_heads(self.attend(self.query_heads(query), key_value, attn_mask))


class ProjectedAttention(DotProductAttention):
    """`DotProductAttention` with an output projection: rows of [B, C, T, D] -> the same shape."""

    def __init__(self, *, d_model: int, heads: int, d_key: int, d_value: int, dropout: float = 0.0) -> None:
        super().__init__(d_model=d_model, heads=heads, d_key=d_key, d_value=d_value, dropout=dropout)
        self.output = Linear(heads * d_value, d_model)

    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Attend and project; see `Attention.forward`."""
        return super().forward(query, key_value, attn_mask=attn_mask).map(self.output)

    def each_level(self, query: Rows, levels: KeyValue, *, attn_mask: Tensor | None) -> Tensor:
        """Attend to the outputs of several encoder layers, each on its own, with the same weights for all of them.

        The query is projected once. Levels take the dimension of captions.

        Args:
            query: rows of [B, C, T, D].
            levels: keys and values, [B, L, H, N, K].
            attn_mask: as of `Attention.forward`.

        Returns:
            [L, B, C, T, D], or [L, R, D] where the query is packed.
        """
        q = self.query_heads(query)
        each = zip(*(x.split(1, 1) for x in levels), strict=True)  # keys and values, [B, 1, H, N, K]
        found = [query.merge_heads(self.attend(q, level, attn_mask)).values for level in each]
        return self.output(torch.stack(found))
