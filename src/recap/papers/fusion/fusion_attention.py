"""Fusion attention and its gate: words attend to two streams of an image, each guided by the other (FT, 3.4-3.5).

    l_r = MHA(a, R, R),  l_g = MHA(a, G, G)                          language guidance        (18)
    G_t = MHA(l_r, G, G),  R_t = MHA(l_g, R, R)                      fusion attention         (19)
    f   = sigmoid(W_f [a ; l_r ; l_g])                               fusion gate              (20)
    F   = R_t * f + G_t * (1 - f)                                                             (21)

a are the words after self-attention; R is the second stream (regions or segments), G the grid. As printed, the gate
reads the guidance, and opens for R_t, which the grid guided. The four attentions have parameters of their own; the
paper does not say whether they share any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from recap.nn.attention import KeyValue
from recap.nn.fast import Linear
from recap.nn.layers import Residual
from recap.nn.rows import Rows
from recap.papers.fusion.positioned import PositionedAttention


class Source(NamedTuple):
    """A stream that is attended to: vectors [B, N, D], and positions [B, N, D] for its keys or None."""

    values: Tensor
    positions: Tensor | None = None


class FusionKeyValues(NamedTuple):
    """Keys and values of both streams, for language guidance and for fusion attention."""

    guidance_second: KeyValue
    guidance_grid: KeyValue
    second: KeyValue
    grid: KeyValue


class Masks(NamedTuple):
    """Which vectors of each stream may be attended to, broadcastable to [B, C, T, N]; None: all."""

    second: Tensor | None
    grid: Tensor | None


class FusionGate(nn.Module):
    """Eq. 20-21; the formula has no bias of W_f."""

    def __init__(self, *, d_model: int, bias: bool) -> None:
        super().__init__()
        self.gate = Linear(3 * d_model, d_model, bias=bias)

    def forward(self, words: Tensor, guidance: tuple[Tensor, Tensor], fused: tuple[Tensor, Tensor]) -> Tensor:
        """Words a, guidance (l_r, l_g) and fused (R_t, G_t), each [..., D] -> F [..., D]."""
        gate = torch.sigmoid(self.gate(torch.cat([words, *guidance], -1)))
        second, grid = fused
        return second * gate + grid * (1 - gate)


class FusionAttention(nn.Module):
    """Eq. 18-21. `residual` makes what is around each of the four attentions; None: nothing, as Eq. 18-19 print it."""

    def __init__(self, *, d_model: int, heads: int, gate_bias: bool, residual: Callable[[], Residual] | None) -> None:
        super().__init__()
        self.guidance_second = PositionedAttention(d_model=d_model, heads=heads)
        self.guidance_grid = PositionedAttention(d_model=d_model, heads=heads)
        self.second = PositionedAttention(d_model=d_model, heads=heads)
        self.grid = PositionedAttention(d_model=d_model, heads=heads)
        self.gate = FusionGate(d_model=d_model, bias=gate_bias)
        self.around = nn.ModuleDict() if residual is None else nn.ModuleDict({name: residual() for name in _PARTS})

    def key_value(self, second: Source, grid: Source) -> FusionKeyValues:
        """Project both streams, once per image."""
        sources = (second, grid, second, grid)
        attentions = (self.guidance_second, self.guidance_grid, self.second, self.grid)
        return FusionKeyValues(
            *(
                attention.key_value(
                    Rows(source.values[:, None]), None if source.positions is None else source.positions[:, None]
                )
                for attention, source in zip(attentions, sources, strict=True)
            )
        )

    def forward(self, words: Rows, image: FusionKeyValues, masks: Masks) -> Rows:
        """Rows of [B, C, T, D], keys and values of the image, and its masks -> rows of [B, C, T, D]."""
        l_r = self._attend("guidance_second", words, image.guidance_second, masks.second)
        l_g = self._attend("guidance_grid", words, image.guidance_grid, masks.grid)
        g_t = self._attend("grid", l_r, image.grid, masks.grid)
        r_t = self._attend("second", l_g, image.second, masks.second)
        return words.like(self.gate(words.values, (l_r.values, l_g.values), (r_t.values, g_t.values)))

    def _attend(self, name: str, query: Rows, key_value: KeyValue, mask: Tensor | None) -> Rows:
        attention: PositionedAttention = getattr(self, name)

        def attend(x: Tensor) -> Tensor:
            return attention(query.like(x), key_value, attn_mask=mask).values

        return query.like(self.around[name](query.values, attend) if name in self.around else attend(query.values))


_PARTS = ("guidance_second", "guidance_grid", "second", "grid")
