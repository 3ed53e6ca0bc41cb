"""What every attention offers, and scaled dot-product attention with several heads (Vaswani et al. 2017, Eq. 1).

The captions of one image share its keys and values: they are projected once per image and attended to by all captions
as one block of query rows, which is what keeps decoding and training cheap.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from recap.nn.fast import Linear, attended
from recap.nn.folding import fold, fold_mask, unfold
from recap.nn.masks import MASKED_SCORE
from recap.nn.rows import Rows

KeyValue = tuple[Tensor, Tensor]  # each [B, C or 1, H, N, K]; C is 1 where the captions of an image share them


class AttentionWeights(nn.Identity):
    """The weights of an attention pass through it, so that a forward hook can read them.

    Attributes:
        hooked: whether a hook was ever registered; an attention need not compute its weights one by one before.
    """

    hooked = False

    def register_forward_hook(self, *arguments: Any, **named: Any) -> Any:
        """Register a hook, as `torch.nn.Module.register_forward_hook`."""
        self.hooked = True
        return super().register_forward_hook(*arguments, **named)


class Attention(nn.Module, ABC):
    """The interface of all attentions; other inputs of a mechanism are separate arguments."""

    @abstractmethod
    def key_value(self, source: Rows) -> KeyValue:
        """Project what is attended to, once per image or token: rows of [B, C or 1, N, D] -> keys and values."""

    @abstractmethod
    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Attend.

        Args:
            query: rows of [B, C, T, D].
            key_value: keys and values, [B, C or 1, H, N, K].
            attn_mask: boolean, broadcastable to [B, C, T, N], True = may attend; None: everything.

        Returns:
            Rows of [B, C, T, D], packed as the query.
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
        self,
        query: Rows,
        key_value: KeyValue,
        *,
        attn_mask: Tensor | None = None,
        attn_bias: Tensor | None = None,
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
        found = attended(fold(q, shared), k, v, mask)
        return projected.merge_heads(unfold(found, captions, shared)).map(self.output)
