"""The decoder layer of the Meshed-Memory Transformer; its encoder layer is the Transformer's with memory attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from recap.models.level_memory import LevelMemory
from recap.models.transformer_layers import DecoderLayer, Past
from recap.nn.attention import KeyValue
from recap.nn.dot_product import ProjectedAttention
from recap.nn.residual import Residual
from recap.nn.rows import Rows
from recap.papers.m2.meshed import MeshedGate


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
        levels = self.around_cross(s, lambda y: self._attend_levels(x.like(y), image, cross_mask))
        return x.like(self.around_feed_forward(self.mesh(s, levels.unbind()), self.feed_forward))

    def _attend_levels(self, x: Rows, image: KeyValue, attn_mask: Tensor | None) -> Tensor:
        """Attend to each level -> [levels, ..., D]; the queries are the same for all, so they are projected once."""
        q = self.cross.query_heads(x)
        levels = zip(*(part.split(1, 1) for part in image), strict=True)  # each [B, 1, H, N, K]
        found = [x.merge_heads(self.cross.attend(q, level, attn_mask)).values for level in levels]
        return self.cross.output(torch.stack(found))
