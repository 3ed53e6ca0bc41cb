"""The layers of the Meshed-Memory Transformer (Cornia et al. 2020): memory attention, meshed gate, decoder layer.

The encoder layer is the Transformer's with memory attention. A layer's m slots are learned keys and values, equal for
all images, which no mask hides. The scales are the released code's:

    K = [W_k X ; sqrt(d_k) M_k],   V = [W_v X ; sqrt(m) M_v]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from recap.models.state import LevelMemory
from recap.models.transformer import DecoderLayer, Past
from recap.nn.attention import KeyValue, ProjectedAttention
from recap.nn.fast import Linear
from recap.nn.layers import Residual, Stack
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


class MeshedGate(torch.nn.Module):
    """sum_k sigmoid(W_k [s ; e_k] + b_k) * e_k / sqrt(levels): each encoder level k has a gate of its own."""

    def __init__(self, *, d_model: int, levels: int) -> None:
        super().__init__()
        self.gates = Stack[Linear](Linear(2 * d_model, d_model) for _ in range(levels))

    def forward(self, state: Tensor, attended: Sequence[Tensor]) -> Tensor:
        """State s [..., D] and what was found in each level, e_k [..., D] -> [..., D]."""
        gated = [
            gate(torch.cat([state, found], -1)).sigmoid() * found
            for gate, found in zip(self.gates, attended, strict=True)
        ]
        return torch.stack(gated).sum(0) / math.sqrt(len(gated))


class MeshedDecoderLayer(DecoderLayer):
    """Causal self-attention, gated cross-attention over all encoder levels, feed-forward.

    With s the tokens after self-attention and its norm, one cross-attention and one norm for all levels X_k:

        e_k = norm(s + dropout(attention(s, X_k))),   out = feed_forward(sum_k gate_k(s, e_k) * e_k / sqrt(levels))

    There is no other residual connection around the cross-attention.
    """

    cross: ProjectedAttention

    def __init__(
        self,
        *,
        attention: ProjectedAttention,
        cross: ProjectedAttention,
        mesh: MeshedGate,
        feed_forward: nn.Module,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__(attention=attention, cross=cross, feed_forward=feed_forward, residual=residual)
        self.mesh = mesh

    def image(self, memory: LevelMemory) -> KeyValue:  # type: ignore[override]
        """Return keys and values of all levels, [B, levels, H, N, K]."""
        return self.cross.key_value(Rows(memory.levels))

    def forward(
        self, x: Rows, image: Any, self_mask: Tensor | None, cross_mask: Any, past: Past | None = None, **others: Any
    ) -> Rows:
        """As `DecoderLayer.forward`."""
        s = self.around_attention(x.values, lambda y: self.self_attend(x.like(y), self_mask, past, **others).values)
        levels = self.around_cross(s, lambda y: self.cross.each_level(x.like(y), image, attn_mask=cross_mask))
        return x.like(self.around_feed_forward(self.mesh(s, levels.unbind()), self.feed_forward))
