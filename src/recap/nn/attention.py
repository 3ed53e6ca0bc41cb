"""What every attention offers, and its three forms: multi-head (Vaswani et al. 2017), with widths of its own, additive.

The captions of one image share its keys and values: they are projected once per image and attended to by all captions
as one block of query rows, which is what keeps decoding and training cheap.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from recap.nn.fast import Linear, attended
from recap.nn.layers import make_activation
from recap.nn.masks import MASKED_SCORE
from recap.nn.rows import Rows, fold, fold_mask, unfold

KeyValue = tuple[Tensor, Tensor]  # each [B, C or 1, H, N, K]; C is 1 where the captions of an image share them


class AttentionWeights(nn.Identity):
    """The weights of an attention pass through it, so that a forward hook can read them."""

    hooked = False  #: whether a hook was ever registered; an attention need not compute its weights one by one before

    def register_forward_hook(self, *arguments: Any, **named: Any) -> Any:
        """As torch's."""
        self.hooked = True
        return super().register_forward_hook(*arguments, **named)


class Attention(nn.Module, ABC):
    """The interface of all attentions; other inputs of a mechanism are separate arguments."""

    @abstractmethod
    def key_value(self, source: Rows) -> KeyValue:
        """Project what is attended to, once per image or token: rows of [B, C or 1, N, D] -> keys and values."""

    @abstractmethod
    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Rows of [B, C, T, D], keys and values [B, C or 1, H, N, K] -> rows of [B, C, T, D], packed as the query.

        `attn_mask` is boolean, broadcastable to [B, C, T, N], True = may attend; None: everything.
        """

    def to_itself(self, x: Rows, attn_mask: Tensor | None, **others: Any) -> Rows:
        """Self-attention; `others` are what else a mechanism takes."""
        attended: Rows = self(x, self.key_value(x), attn_mask=attn_mask, **others)
        return attended


def head_width(d_model: int, heads: int) -> int:
    """Return K = D / H."""
    if d_model % heads:
        raise ValueError(f"d_model {d_model} is not divisible by {heads} heads")
    return d_model // heads


class MultiHeadAttention(Attention):
    """Multi-head attention with biases on all four projections."""

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__()
        head_width(d_model, heads)
        self.heads = heads
        self.query = Linear(d_model, d_model)
        self.key = Linear(d_model, d_model)
        self.value = Linear(d_model, d_model)
        self.output = Linear(d_model, d_model)

    def key_value(self, source: Rows) -> KeyValue:
        """Project what is attended to: rows of [B, C or 1, N, D] -> keys and values [B, C or 1, H, N, K]."""
        key, value = source.map(self.key), source.map(self.value)
        return key.split_heads(self.heads), value.split_heads(self.heads)

    def forward(
        self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None, attn_bias: Tensor | None = None
    ) -> Rows:
        """As `Attention.forward`; `attn_bias` [B, C, H, T, N], such as a geometry of boxes, is added to the scores."""
        return self.attend(query.map(self.query), key_value, attn_mask=attn_mask, attn_bias=attn_bias)

    def attend(
        self, projected: Rows, key_value: KeyValue, *, attn_mask: Tensor | None, attn_bias: Tensor | None
    ) -> Rows:
        """As `forward`, of queries that are projected already."""
        q = projected.split_heads(self.heads)  # [B, C, H, T, K]
        k, v = key_value
        captions, shared = q.shape[1], k.shape[1] < q.shape[1]
        k, v = (x[:, 0] if shared else x.flatten(0, 1) for x in (k, v))  # [B', H, N, K]
        mask = None if attn_mask is None else fold_mask(attn_mask, projected.shape, shared)  # [B', 1, R or 1, N]
        if attn_bias is not None:
            bias = fold(attn_bias, shared)  # [B', H, R, N]
            mask = bias if mask is None else bias.masked_fill(~mask, MASKED_SCORE)
        heads = unfold(attended(fold(q, shared), k, v, mask), captions, shared)  # [B, C, H, T, K]
        return projected.merge_heads(heads).map(self.output)


class DotProductAttention(Attention):
    """dropout(softmax(Q K^T / sqrt(d_key))) V, the heads concatenated, without an output projection."""

    def __init__(self, *, d_model: int, heads: int, d_key: int, d_value: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query = Linear(d_model, heads * d_key)
        self.key = Linear(d_model, heads * d_key)
        self.value = Linear(d_model, heads * d_value)
        # [B, C, H, T, N] pass here once a hook watches; unwatched and not dropped they stay within fused attention
        self.weights = AttentionWeights()
        self.dropout = nn.Dropout(dropout)

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
        """Attend to the outputs of several encoder layers, each on its own, with one query and the same weights.

        Levels take the dimension of captions: [B, L, H, N, K] -> [L, B, C, T, D], or [L, R, D] of a packed query.
        """
        q = self.query_heads(query)
        each = zip(*(x.split(1, 1) for x in levels), strict=True)  # keys and values, [B, 1, H, N, K]
        return self.output(torch.stack([query.merge_heads(self.attend(q, level, attn_mask)).values for level in each]))


class AdditiveAttention(Attention):
    """Additive attention (Xu et al. 2015): a_i = w^T s(W_k k_i + W_q Q), softmax over i; only W_k has a bias.

    It has one head and no axis for it; s is tanh (paper) or relu. `weights` pass through an identity, [B, C, T, N].
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
