"""The layers of the Transformer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from recap.models.cache import KeyValueCache
from recap.nn.attention import Attention, KeyValue
from recap.nn.residual import Residual
from recap.nn.rows import Rows


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward: rows of [B, 1, N, D] -> rows of [B, 1, N, D]."""

    def __init__(self, *, attention: Attention, feed_forward: nn.Module, residual: Callable[[], Residual]) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.around_attention, self.around_feed_forward = residual(), residual()

    def forward(self, x: Rows, attn_mask: Tensor | None) -> Rows:
        """Apply the layer; `attn_mask` is broadcastable to [B, 1, N, N]."""

        def attend(y: Tensor) -> Tensor:
            rows = x.like(y)
            return self.attention(rows, self.attention.key_value(rows), attn_mask=attn_mask).values

        attended = self.around_attention(x.values, attend)
        return x.like(self.around_feed_forward(attended, self.feed_forward))


@dataclass
class Past:
    """What one decoder layer knows of the tokens before, while a model decodes step by step."""

    cache: KeyValueCache
    layer: int

    def extend(self, key_value: KeyValue) -> KeyValue:
        """Append the newest token; returns the keys and values of all tokens, to be attended to under `cache.mask`."""
        self.cache.append(self.layer, key_value)
        return self.cache.shared(self.layer)


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention, feed-forward: rows of [B, C, T, D] -> rows of [B, C, T, D]."""

    def __init__(
        self, *, attention: Attention, cross: Attention, feed_forward: nn.Module, residual: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.attention, self.cross, self.feed_forward = attention, cross, feed_forward
        self.around_attention, self.around_cross, self.around_feed_forward = residual(), residual(), residual()

    def forward(
        self,
        x: Rows,
        image: KeyValue,
        self_mask: Tensor | None,
        cross_mask: Tensor | None,
        past: Past | None = None,
    ) -> Rows:
        """Apply the layer to all tokens of captions, or to one more token of each.

        Args:
            x: the tokens.
            image: keys and values of the image, [B, 1, H, N, K].
            self_mask: of the tokens, broadcastable to [B, C, T, T], or to [B, C, 1, S] of the cache of `past`.
            cross_mask: of the image, broadcastable to [B, C, T, N].
            past: the tokens before these; None: `x` holds all.
        """
        y = self.around_attention(x.values, lambda y: self.self_attend(x.like(y), self_mask, past).values)
        y = self.around_cross(y, lambda y: self.cross_attend(x.like(y), image, cross_mask, past).values)
        return x.like(self.around_feed_forward(y, self.feed_forward))

    def self_attend(self, x: Rows, attn_mask: Tensor | None, past: Past | None) -> Rows:
        """Attend to the tokens so far."""
        key_value = self.attention.key_value(x)
        return self.attention(x, key_value if past is None else past.extend(key_value), attn_mask=attn_mask)

    def cross_attend(self, x: Rows, image: KeyValue, attn_mask: Tensor | None, past: Past | None) -> Rows:
        """Attend to the image, for which nothing of the past is needed here."""
        return self.cross(x, image, attn_mask=attn_mask)
