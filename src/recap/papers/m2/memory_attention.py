"""Attention with memory slots, which are learnt keys and values (Cornia et al. 2020, "Meshed-Memory Transformer").

    K = [W_k X ; sqrt(d_k) M_k],   V = [W_v X ; sqrt(m) M_v]

A layer's m slots are the same for all images, and no mask hides them. The scales are the released code's.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from recap.nn.attention import KeyValue
from recap.nn.dot_product import ProjectedAttention
from recap.nn.rows import Rows


class MemoryAttention(ProjectedAttention):
    """Multi-head attention over vectors and memory slots.

    Args:
        d_model, heads, d_key, d_value: as of `DotProductAttention`.
        slots: number m of memory slots, at least 1.

    Attributes:
        memory_key: M_k [1, m, H * d_key], initially normal with standard deviation 1 / d_key.
        memory_value: M_v [1, m, H * d_value], initially normal with standard deviation 1 / m.
    """

    def __init__(self, *, d_model: int, heads: int, d_key: int, d_value: int, slots: int) -> None:
        super().__init__(d_model=d_model, heads=heads, d_key=d_key, d_value=d_value)
        self.slots = slots
        self.memory_key = nn.Parameter(torch.randn(1, slots, heads * d_key) / d_key)
        self.memory_value = nn.Parameter(torch.randn(1, slots, heads * d_value) / slots)

    def key_value(self, source: Rows) -> KeyValue:
        """Rows of [B, C or 1, N, D] -> keys and values of these and of the slots, [B, C or 1, H, N + m, K]."""
        key, value = super().key_value(source)
        key_scale = math.sqrt(key.shape[-1])
        return self._extended(key, self.memory_key * key_scale), self._extended(
            value, self.memory_value * math.sqrt(self.slots)
        )

    def _extended(self, x: Tensor, memory: Tensor) -> Tensor:
        """[B, C, H, N, K] and slots [1, m, H * K] -> [B, C, H, N + m, K]."""
        slots = Rows(memory[None]).split_heads(self.heads).to(x.dtype)  # [1, 1, H, m, K]
        return torch.cat([x, slots.expand(*x.shape[:2], -1, -1, -1)], 3)

    def attend(self, q: Tensor, key_value: KeyValue, attn_mask: Tensor | None) -> Tensor:
        """As `DotProductAttention.attend`; the mask is of the N vectors without the slots."""
        mask = None if attn_mask is None else pad(attn_mask, (0, self.slots), value=True)
        return super().attend(q, key_value, mask)
