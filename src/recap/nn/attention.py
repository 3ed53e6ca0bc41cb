"""What every attention offers, and its forms: scaled dot products (Vaswani et al. 2017), and
additive.

The captions of one image share its keys and values: they are projected once per image and attended
to by all captions as one block of query rows, which is what keeps decoding and training cheap.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from recap.nn.fast import Linear, fast
from recap.nn.layers import Dropout
from recap.nn.rows import (
    MASKED_SCORE,
    Rows,
    captions_to_queries,
    is_causal,
    keys_for_queries,
    mask_for_queries,
    queries_to_captions,
)

# each [B, C or 1, H, N, K]; C is 1 where the captions of an image share them
KeyValue = tuple[Tensor, Tensor]


class AttentionWeights(nn.Identity):
    """The weights of an attention pass through it, so that a forward hook can read them."""

    #: whether a hook was ever registered;
    #: an attention need not compute its weights one by one before
    hooked = False

    def register_forward_hook(self, *arguments: Any, **named: Any) -> Any:
        """As torch's."""
        self.hooked = True
        return super().register_forward_hook(*arguments, **named)


class Attention(nn.Module, ABC):
    """The interface of all attentions; other inputs of a mechanism are separate arguments.

    The weights [B, C, H, T, N] of one that may attend to an image pass through an identity named
    `weights`, which `recap.models.explained` reads.
    """

    heads: int  #: H
    key: Any  #: W_k
    value: Any  #: W_v

    def key_value(self, source: Rows) -> KeyValue:
        """Project rows of [B, C or 1, N, D], once per image or token -> keys and values [B, C or 1,
        H, N, K]."""
        key = source.map(self.key)
        value = source.map(self.value)
        return key.split_heads(self.heads), value.split_heads(self.heads)

    @abstractmethod
    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Rows of [B, C, T, D], keys and values [B, C or 1, H, N, K] -> rows
        of [B, C, T, D], packed as the query.

        `attn_mask` is boolean, broadcastable to [B, C, T, N], True = may attend; None: everything.
        """

    def to_itself(self, x: Rows, attn_mask: Tensor | None, **others: Any) -> Rows:
        """Self-attention; `others` are what else a mechanism takes."""
        return self(x, self.key_value(x), attn_mask=attn_mask, **others)


def attended(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(Q K^T / sqrt(K) + mask) V: [B, H, T, K] and twice [B, H, N, K] -> [B, H, T, K]."""
    # In bf16 on a CPU the gradient of torch's fused attention takes 8 to 20 times as long as in
    # float32 (torch 2.13: 56 ms against 7 for 20 images of 49 vectors, 139 against 7 for 100
    # captions of 13 tokens), more than all else of a Transformer's step together. Two products and
    # a softmax take as long as in float32.
    slow = query.dtype == torch.bfloat16 and query.device.type == "cpu" and query.requires_grad
    with sdpa_kernel(SDPBackend.MATH) if slow and fast() else nullcontext():
        # a GPU takes its fastest kernel; a CPU gives the same bits
        if mask is not None and is_causal(mask):
            return scaled_dot_product_attention(query, key, value, is_causal=True)
        return scaled_dot_product_attention(query, key, value, attn_mask=mask)


class MultiHeadAttention(Attention):
    """dropout(softmax(Q K^T / sqrt(d_key))) V, the heads concatenated, and projected unless
    `projected` is False; with biases.

    `d_key` and `d_value` are widths of a head; by default the heads divide `d_model` among
    themselves.
    """

    def __init__(
        self,
        *,
        d_model: int,
        heads: int,
        d_key: int | None = None,
        d_value: int | None = None,
        dropout: float = 0.0,
        projected: bool = True,
    ) -> None:
        super().__init__()
        d_key = d_key or d_model // heads
        d_value = d_value or d_model // heads
        self.heads = heads
        self.query = Linear(d_model, heads * d_key)
        self.key = Linear(d_model, heads * d_key)
        self.value = Linear(d_model, heads * d_value)
        # Weights pass here once a hook watches;
        # unwatched and not dropped they stay within fused attention.
        self.weights = AttentionWeights()
        self.dropout = Dropout(dropout)
        self.output: Any = Linear(heads * d_value, d_model) if projected else nn.Identity()

    def query_heads(self, query: Rows) -> Tensor:
        """Rows of [B, C, T, D] -> Q, [B, C, H, T, K]; once for several `attend`."""
        return query.map(self.query).split_heads(self.heads)

    def attend(
        self,
        q: Tensor,
        key_value: KeyValue,
        attn_mask: Tensor | None,
        attn_bias: Tensor | None = None,
    ) -> Tensor:
        """Q of `query_heads`, keys and values of `key_value` -> [B, C, H, T, K]; see `forward`."""
        captions = q.shape[1]
        k, v, shared = keys_for_queries(key_value, captions)
        rows = captions_to_queries(q, shared)  # [B', H, R, K]
        mask = attn_mask
        if mask is not None:
            mask = mask_for_queries(mask, (len(q), captions, q.shape[3]), shared)
        if attn_bias is not None:
            bias = captions_to_queries(attn_bias, shared)  # [B', H, R, N]
            mask = bias if mask is None else bias.masked_fill(~mask, MASKED_SCORE)
        if not self.weights.hooked and not (self.training and self.dropout.p):
            return queries_to_captions(attended(rows, k, v, mask), captions, shared)
        scores = rows / math.sqrt(k.shape[-1]) @ k.mT
        if mask is not None:
            scores = (
                scores.masked_fill(~mask, MASKED_SCORE)
                if mask.dtype == torch.bool
                else scores + mask
            )
        weights = self.weights(queries_to_captions(scores.softmax(-1), captions, shared))
        dropped = captions_to_queries(self.dropout(weights), shared)
        return queries_to_captions(dropped @ v, captions, shared)

    def forward(
        self,
        query: Rows,
        key_value: KeyValue,
        *,
        attn_mask: Tensor | None = None,
        attn_bias: Tensor | None = None,
    ) -> Rows:
        """As `Attention.forward`; `attn_bias` [B, C, H, T, N],
        such as a geometry of boxes, is added to the scores."""
        q = self.query_heads(query)
        attended = self.attend(q, key_value, attn_mask, attn_bias)
        return query.merge_heads(attended).map(self.output)

    def each_level(self, query: Rows, levels: KeyValue, *, attn_mask: Tensor | None) -> Tensor:
        """Attend to the outputs of several encoder layers,
        each on its own, with one query and the same weights.

        Levels take the dimension of captions: [B, L, H, N, K] -> [L, B, C, T, D], or [L, R, D] of a
        packed query.
        """
        q = self.query_heads(query)
        keys, values = levels
        attended = []
        for level in zip(keys.split(1, 1), values.split(1, 1), strict=True):  # [B, 1, H, N, K]
            attended.append(query.merge_heads(self.attend(q, level, attn_mask)).values)
        return self.output(torch.stack(attended))


class AdditiveAttention(Attention):
    """Additive attention (Xu et al. 2015): a_i = w^T tanh(W_k k_i + W_q Q), softmax over i; only
    W_k has a bias.

    It has one head and no axis for it.
    """

    def __init__(self, *, d_query: int, d_source: int, d_hidden: int) -> None:
        super().__init__()
        self.key = Linear(d_source, d_hidden)
        self.query = Linear(d_query, d_hidden, bias=False)
        self.score = nn.Linear(d_hidden, 1, bias=False)
        self.weights = nn.Identity()

    def key_value(self, source: Rows) -> KeyValue:
        """Project what is attended to: [B, 1, N, F] -> keys [B, 1, N, A],
        and the source as values [B, 1, N, F]."""
        return source.map(self.key).padded(), source.padded()

    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Attend: query [B, C, T, Q], keys [B, 1, N, A], values [B, 1, N, F] -> [B, C, T, F].

        See `Attention`.
        """
        k, v = key_value
        q = query.map(self.query).padded()
        hidden = torch.tanh(k[..., None, :, :] + q[..., None, :])
        scores = self.score(hidden)[..., 0]  # [B, C, T, N]
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, MASKED_SCORE)
        weights = self.weights(scores.softmax(-1))
        # captions are query rows: the image is not copied
        attended = weights.to(v.dtype).flatten(1, 2) @ v[:, 0]
        return query.like(attended.unflatten(1, weights.shape[1:3]))
