"""The layers of the Transformer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from recap.models.cache import KeyValueCache
from recap.models.state import Memory
from recap.nn.attention import Attention, KeyValue
from recap.nn.residual import Residual
from recap.nn.rows import Rows


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward: rows of [B, 1, N, D] -> rows of [B, 1, N, D]."""

    def __init__(self, *, attention: Attention, feed_forward: nn.Module, residual: Callable[[], Residual]) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.around_attention, self.around_feed_forward = residual(), residual()

    def forward(self, x: Rows, attn_mask: Tensor | None, **others: Any) -> Rows:
        """Apply the layer; `attn_mask` is broadcastable to [B, 1, N, N], `others` are what else its attention takes."""
        y = self.around_attention(x.values, lambda y: self.self_attend(x.like(y), attn_mask, **others).values)
        return x.like(self.around_feed_forward(y, self.feed_forward))

    def self_attend(self, x: Rows, attn_mask: Tensor | None, **others: Any) -> Rows:
        """Attend to all vectors."""
        return self.attention.to_itself(x, attn_mask, **others)


@dataclass
class Past:
    """What one decoder layer knows of the tokens before, while a model decodes step by step."""

    cache: KeyValueCache  #: keys and values of all layers; layer: the number of this one
    layer: int
    carried: Any = ()  #: what else it knows, as `TokenLayer.begin` returned it; a step replaces it

    def extend(self, key_value: KeyValue) -> KeyValue:
        """Append the newest token; returns the keys and values of all tokens, to be attended to under `cache.mask`."""
        self.cache.append(self.layer, key_value)
        return self.cache.shared(self.layer)


class TokenLayer(nn.Module, ABC):
    """The interface of a decoder's layers: rows of [B, C, T, D] -> rows of [B, C, T, D]."""

    @abstractmethod
    def image(self, memory: Any) -> Any:
        """Project what the layer attends to in the image, once per image; `memory` is that of its model."""

    def begin(self, like: Tensor) -> Any:
        """Return what the layer remembers before the first token of the images [B, ...], beside keys and values.

        It is made of tensors [B, C, ...] in (named) tuples, which follow their beam; () if it is nothing.
        """
        return ()

    @abstractmethod
    def forward(self, x: Rows, image: Any, self_mask: Tensor | None, cross_mask: Any, past: Past | None = None) -> Rows:
        """Apply the layer to all tokens of captions, or to one more token of each.

        Args:
            x: the tokens.
            image: what `image` returned.
            self_mask: of the tokens, broadcastable to [B, C, T, T], or to [B, C, 1, S] of the cache of `past`.
            cross_mask: of the image, broadcastable to [B, C, T, N].
            past: the tokens before these; None: `x` holds all.
        """


class DecoderLayer(TokenLayer):
    """Causal self-attention, cross-attention, feed-forward."""

    def __init__(
        self, *, attention: Attention, cross: Attention, feed_forward: nn.Module, residual: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.attention, self.cross, self.feed_forward = attention, cross, feed_forward
        self.around_attention, self.around_cross, self.around_feed_forward = residual(), residual(), residual()

    def image(self, memory: Memory) -> KeyValue:
        """Return keys and values of the image, [B, 1, H, N, K]."""
        return self.cross.key_value(Rows(memory.values[:, None]))

    def forward(
        self, x: Rows, image: Any, self_mask: Tensor | None, cross_mask: Any, past: Past | None = None, **others: Any
    ) -> Rows:
        """As `TokenLayer.forward`; `others` are what else the self-attention takes."""
        y = self.around_attention(x.values, lambda y: self.self_attend(x.like(y), self_mask, past, **others).values)
        y = self.around_cross(y, lambda y: self.cross_attend(x.like(y), image, cross_mask, past).values)
        return x.like(self.around_feed_forward(y, self.feed_forward))

    def self_attend(self, x: Rows, attn_mask: Tensor | None, past: Past | None, **others: Any) -> Rows:
        """Attend to the tokens so far."""
        key_value = self.attention.key_value(x)
        key_value = key_value if past is None else past.extend(key_value)
        return self.attention(x, key_value, attn_mask=attn_mask, **others)

    def cross_attend(self, x: Rows, image: Any, attn_mask: Any, past: Past | None) -> Rows:
        """Attend to the image, for which nothing of the past is needed here."""
        return self.cross(x, image, attn_mask=attn_mask)
