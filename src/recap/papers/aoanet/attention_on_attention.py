"""Attention on attention (Huang et al. 2019): what was attended, gated in view of the query.

GLU(W dropout([attended ; query])) = (W_i [...] + b_i) * sigmoid(W_g [...] + b_g)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import glu

from recap.nn.attention import Attention, DotProductAttention, KeyValue, head_width
from recap.nn.fast import Dropout, Linear
from recap.nn.rows import Rows

ORDERS = ("attended_query", "query_attended")


class AttentionOnAttention(nn.Module):
    """The gate alone; the linear layer's first half is the information, its second half the gate.

    Args:
        d_model: width D of query and attended vector.
        order: of the two in the concatenation, "attended_query" (AoANet) or "query_attended".
        dropout: on the concatenation.
    """

    def __init__(self, *, d_model: int, order: str, dropout: float) -> None:
        super().__init__()
        if order not in ORDERS:
            raise ValueError(f"unknown order {order!r}; known are {[*ORDERS]}")
        self.attended_first = order == "attended_query"
        self.dropout = Dropout(dropout)
        self.linear = Linear(2 * d_model, 2 * d_model)

    def forward(self, query: Tensor, attended: Tensor) -> Tensor:
        """[..., D] and [..., D] -> [..., D]."""
        both = [attended, query] if self.attended_first else [query, attended]
        return glu(self.linear(self.dropout(torch.cat(both, -1))), -1)


class AoAAttention(Attention):
    """Multi-head attention without output projection, then attention on attention with the query as it came.

    `attention_dropout` is on the attention weights; `order` and `aoa_dropout` are those of `AttentionOnAttention`.
    """

    def __init__(self, *, d_model: int, heads: int, order: str, attention_dropout: float, aoa_dropout: float) -> None:
        super().__init__()
        width = head_width(d_model, heads)
        self.attention = DotProductAttention(
            d_model=d_model, heads=heads, d_key=width, d_value=width, dropout=attention_dropout
        )
        self.aoa = AttentionOnAttention(d_model=d_model, order=order, dropout=aoa_dropout)

    def key_value(self, source: Rows) -> KeyValue:
        """Rows of [B, C or 1, N, D] -> keys and values [B, C or 1, H, N, K]."""
        return self.attention.key_value(source)

    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Attend, see `Attention.forward`."""
        attended = self.attention(query, key_value, attn_mask=attn_mask)
        return query.like(self.aoa(query.values, attended.values))
