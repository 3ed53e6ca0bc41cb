"""The keys and values of the tokens so far, for the self-attention layers of every Transformer while it decodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recap.nn.attention import KeyValue

INITIAL_TOKENS = 24  # tokens per beam for which space is made at first; the space doubles when it is used up


@dataclass
class Storage:
    """Tensors that caches share: keys and values of each layer, [B, H, capacity, K], of which `written` are in use."""

    layers: list[KeyValue | None]
    written: int = 0

    def copy(self, written: int, images: Tensor | None = None) -> Storage:
        """Return copies of the tensors, of some of the images or of all."""
        pairs = [[x.clone() if images is None else x[images] for x in pair or ()] for pair in self.layers]
        return Storage([(pair[0], pair[1]) if pair else None for pair in pairs], written)


@dataclass(frozen=True, eq=False)
class KeyValueCache:
    """Keys and values of the tokens of all beams, for all self-attention layers of a decoder.

    A token of a beam is an entry of its image, written once and never moved. Each beam knows its own entries by their
    numbers, its `ancestry`; a beam that continues another takes over its row of numbers, not the tensors of any layer:

        token        0      1      2
        beam 0    entry 0  entry 2  entry 4      after token 0 both beams continued beam 1: the ancestry of beam 0 is
        beam 1    entry 1  entry 3  entry 5      [1, 2, 4], that of beam 1 is [1, 3, 5]

    A cache is a value, as the state that holds it: `extended` returns the next one. The tensors are shared and written
    in place; two caches that extend the same one would overwrite each other, so the second one gets copies.
    """

    ancestry: Tensor  #: [B, C, T], the entries of each beam's tokens
    size: int  #: S, entries per image
    storage: Storage  #: the tensors

    @classmethod
    def empty(cls, images: int, layers: int, device: torch.device) -> KeyValueCache:
        """Return a cache without tokens, with one beam per image."""
        return cls(torch.zeros(images, 1, 0, dtype=torch.long, device=device), 0, Storage([None] * layers))

    def extended(self) -> KeyValueCache:
        """Return a cache with one more entry per beam for its next token, which each layer has to `append`."""
        images, beams, _ = self.ancestry.shape
        storage = self.storage if self.storage.written == self.size else self.storage.copy(self.size)
        storage.written = size = self.size + beams
        new = torch.arange(self.size, size, device=self.ancestry.device).expand(images, -1)
        return KeyValueCache(torch.cat([self.ancestry, new[..., None]], -1), size, storage)

    def append(self, layer: int, key_value: KeyValue) -> None:
        """Write the newest token of each beam, keys and values [B, C, H, 1, K]; no gradient passes."""
        entries = [x.detach()[:, :, :, 0].transpose(1, 2) for x in key_value]  # [B, H, C, K]
        stored = self.storage.layers[layer]
        key, value = (self._with_space(None if stored is None else stored[part], entries[part]) for part in (0, 1))
        for whole, new in zip((key, value), entries, strict=True):
            whole[:, :, self.size - new.shape[2] : self.size] = new
        self.storage.layers[layer] = key, value

    def _with_space(self, stored: Tensor | None, new: Tensor) -> Tensor:
        """Return `stored`, or a larger copy if it has no space for the newest entries."""
        capacity = 0 if stored is None else stored.shape[2]
        if stored is not None and self.size <= capacity:
            return stored
        images, heads, beams, width = new.shape
        larger = new.new_empty(images, heads, max(2 * capacity, self.size + (INITIAL_TOKENS - 1) * beams), width)
        if stored is not None:
            larger[:, :, :capacity] = stored
        return larger

    def shared(self, layer: int) -> KeyValue:
        """Return all entries, [B, 1, H, S, K], without a copy; a beam may attend to those of its `mask`."""
        key, value = self._pair(layer)
        return key[:, None, :, : self.size], value[:, None, :, : self.size]

    @property
    def mask(self) -> Tensor:
        """The `attn_mask` [B, C, 1, S] of the shared entries: True where one is a token of the beam."""
        shape = (*self.ancestry.shape[:2], self.size)
        own = torch.zeros(shape, dtype=torch.bool, device=self.ancestry.device).scatter_(2, self.ancestry, True)
        return own[:, :, None]

    def per_beam(self, layer: int) -> KeyValue:
        """Return the tokens of each beam in order, [B, C, H, T, K]: copies, for attentions that are costly per pair."""
        key, value = (self._gathered(x) for x in self._pair(layer))
        return key, value

    def _gathered(self, stored: Tensor) -> Tensor:
        images, beams, length = self.ancestry.shape
        _, heads, capacity, width = stored.shape
        first = torch.arange(0, images * heads * capacity, capacity, device=stored.device).view(images, 1, heads, 1)
        lines = (first + self.ancestry[:, :, None]).flatten()  # whole vectors are copied, where `gather` copies numbers
        return stored.flatten(0, 2).index_select(0, lines).view(images, beams, heads, length, width)

    def _pair(self, layer: int) -> KeyValue:
        pair = self.storage.layers[layer]
        assert pair is not None, "nothing was appended to this layer"
        return pair

    def reorder(self, beams: Tensor) -> KeyValueCache:
        """Return the cache whose beam c of image b continues the old beam `beams[b, c]`; also widens 1 beam to many."""
        images = torch.arange(len(beams), device=beams.device)[:, None]
        return replace(self, ancestry=self.ancestry[images, beams])

    def select(self, images: Tensor) -> KeyValueCache:
        """Return the cache of some of the images, given by index: a copy."""
        return replace(self, ancestry=self.ancestry[images], storage=self.storage.copy(self.size, images))
