"""The layers of the Transformer, and the cache of words that its decoder layers share between the beams of an image."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn

from recap.layers.attention import Attention, Carry, KeyValue
from recap.layers.fast.packing import Words
from recap.layers.residual import Residual
from recap.models.state import Memory

ROOM = 24  # words for which a cache is made; it doubles when they are used up


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward: [B, 1, N, D] -> [B, 1, N, D]."""

    def __init__(self, *, attention: Attention, feed_forward: nn.Module, residual: Callable[[], Residual]) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.around_attention, self.around_feed_forward = residual(), residual()

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Apply the layer; `mask` [B, N] is True where a vector is real, None when all are."""
        x = self.around_attention(x, lambda y: self.attention(y, self.attention.keys(y), mask=mask, real=mask)[0])
        return self.around_feed_forward(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention, feed-forward: [B, C, T, D] -> [B, C, T, D], or packed [R, D] -> [R, D].

    While decoding, the keys and values of all words of all beams of an image lie in one cache [B, H, S, K] that is
    written in place and never reordered: each beam has a row of `lineage` that says which of the S entries are its own
    words. So a beam that continues another takes over a row of booleans, not the caches of every layer.
    """

    def __init__(
        self, *, attention: Attention, cross: Attention, feed_forward: nn.Module, residual: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.attention, self.cross, self.feed_forward = attention, cross, feed_forward
        self.around_attention, self.around_cross, self.around_feed_forward = residual(), residual(), residual()

    @property
    def packs(self) -> bool:
        """Whether padding may be left out."""
        return self.attention.packs and self.cross.packs

    def forward(
        self, x: Tensor, image_keys: KeyValue, mask: Tensor | None, words: Words | None, real: Tensor | None
    ) -> Tensor:
        """Teacher forcing over all words; `words` says how `x` is packed, `real` [B, C, T] which rows are words."""

        def attend(y: Tensor) -> Tensor:
            return self.attention(y, self.attention.keys(y, words=words), causal=True, real=real, words=words)[0]

        x = self.around_attention(x, attend)
        x = self.around_cross(x, lambda y: self.cross(y, image_keys, mask=mask, real=real, words=words)[0])
        return self.around_feed_forward(x, self.feed_forward)

    def start(self, memory: Memory) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return what is carried before the first word: (per beam, per image)."""
        images = memory.values.shape[0]
        empty = (key[:, 0] for key in self.attention.keys(memory.values[:, None, :0]))  # no words yet: [B, H, 0, K]
        image_keys = self.cross.keys(memory.values[:, None])
        carries = (self.attention.start(images, 1, memory.values), self.cross.start(images, 1, memory.values))
        per_beam = named("own", carries[0]) | named("cross", carries[1])
        return per_beam, named("image", image_keys) | named("words", tuple(empty))

    def step(
        self,
        x: Tensor,
        per_beam: dict[str, Tensor],
        per_image: dict[str, Tensor],
        mask: Tensor | None,
        lineage: Tensor,
    ) -> Tensor:
        """One word, [B, C, 1, D]; `per_beam` and `per_image` are brought up to date.

        Args:
            x: [B, C, 1, D].
            per_beam, per_image: this layer's tensors.
            mask: of the image's vectors, [B, N] or None.
            lineage: [B, C, S], True where an entry of the cache is a word of the beam, this one included.
        """

        def attend(y: Tensor) -> Tensor:
            caches = zip(values("words", per_image), self.attention.keys(y), strict=True)
            words = tuple(append(cache, new[:, :, :, 0].transpose(1, 2), lineage.shape[-1]) for cache, new in caches)
            per_image.update(named("words", words))
            seen = cast(KeyValue, tuple(cache[:, None, :, : lineage.shape[-1]] for cache in words))
            out, own = self.attention(y, seen, mask=lineage, carry=values("own", per_beam))
            per_beam.update(named("own", own))
            return out

        def look(y: Tensor) -> Tensor:
            image_keys = cast(KeyValue, values("image", per_image))
            out, carry = self.cross(y, image_keys, mask=mask, carry=values("cross", per_beam))
            per_beam.update(named("cross", carry))
            return out

        x = self.around_attention(x, attend)
        x = self.around_cross(x, look)
        return self.around_feed_forward(x, self.feed_forward)


def append(cache: Tensor, new: Tensor, size: int) -> Tensor:
    """Write `new` [B, H, C, K] as the last of the first `size` entries of a cache [B, H, room, K]; returns the cache.

    The cache is written in place; where its room is used up, a larger one is returned.
    """
    count = new.shape[2]
    if size > cache.shape[2]:
        room = max(2 * cache.shape[2], size + (ROOM - 1) * count)
        larger = cache.new_empty(*cache.shape[:2], room, cache.shape[3])
        larger[:, :, : cache.shape[2]] = cache
        cache = larger
    cache[:, :, size - count : size] = new
    return cache


def named(name: str, tensors: Carry | KeyValue) -> dict[str, Tensor]:
    """Give the tensors of a tuple names: {"words.0": ..., "words.1": ...}."""
    return {f"{name}.{index}": value for index, value in enumerate(tensors)}


def values(name: str, tensors: dict[str, Tensor]) -> Carry:
    """Undo `named`."""
    return tuple(value for key, value in tensors.items() if key.startswith(f"{name}."))


def of_layer(index: int, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of one layer under their names within it."""
    prefix = f"{index}/"
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
