"""What a model carries: the memory of encoded images, the state of decoding between two tokens, and
the cache of keys and values in the state of every Transformer.

Some keep more of an image than its vectors: a summary, or the outputs of all encoder layers. Shape
letters as in `recap.nn`: B images, C captions or beams, N vectors, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from recap.models.images import Stream
from recap.nn.attention import KeyValue

PER_BEAM = {"per": "beam"}
"""Metadata of a state's field that follows its beam: `h: Tensor = field(metadata=PER_BEAM)`."""


@dataclass(frozen=True)
class Memory:
    """What a model keeps of B images:
    `values` [B, N, D] and `mask` [B, N], True where a vector is real.

    A model may add fields in a subclass: tensors [B, ...], objects with `select`, tuples of such,
    or None.
    """

    values: Tensor
    mask: Tensor

    def select(self, images: Tensor) -> Self:
        """Return the memory of some of the images, given by index."""
        return _selected(self, images)


MemoryT = TypeVar("MemoryT", bound=Memory)


@dataclass(frozen=True)
class State(Generic[MemoryT]):
    """What a model carries between two tokens; each model adds its own fields in a subclass.

    A field is a tensor, an object with `reorder` and `select` such as a `KeyValueCache`, or a tuple
    of such. Those marked `PER_BEAM` are [B, C, ...] and follow their beam; all others are [B, ...],
    shared by the beams.
    """

    memory: MemoryT  #: the images
    position: int = 0  #: how many tokens each beam has

    def advanced(self, **changes: Any) -> Self:
        """Return the state with one token more, and other values of these fields."""
        return replace(self, position=self.position + 1, **changes)

    def reorder(self, beams: Tensor) -> Self:
        """Return the state whose beam c of image b continues the old beam `beams[b, c]`.

        Also widens 1 beam to many.
        """
        images = torch.arange(len(beams), device=beams.device)[:, None]

        def moved(value: Any) -> Any:
            return value[images, beams] if isinstance(value, Tensor) else value.reorder(beams)

        own = {}
        for field in fields(self):
            if field.metadata == PER_BEAM:
                own[field.name] = _mapped(moved, getattr(self, field.name))
        return replace(self, **own)

    def select(self, images: Tensor) -> Self:
        """Return the state of some of the images, given by index."""
        return _selected(self, images)


StateT = TypeVar("StateT", bound=State[Any])


def _selected(whole: Any, images: Tensor) -> Any:
    """Return a memory or a state of some of the images."""

    def select(leaf: Any) -> Any:
        return leaf[images] if isinstance(leaf, Tensor) else leaf.select(images)

    names = [field.name for field in fields(whole) if field.name != "position"]
    return replace(whole, **{name: _mapped(select, getattr(whole, name)) for name in names})


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to the leaves of nested tuples but None."""
    if not isinstance(value, tuple):
        return None if value is None else function(value)
    mapped = [_mapped(function, part) for part in value]
    return type(value)(*mapped) if hasattr(value, "_fields") else tuple(mapped)


@dataclass(frozen=True)
class GlobalMemory(Memory):
    """A memory with `summary` [B, D], the image-level vector."""

    summary: Tensor


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the real vectors: [B, N, D], [B, N] -> [B, D]."""
    weights = mask.to(values.dtype)
    return (weights[:, None] @ values)[:, 0] / weights.sum(-1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class LevelMemory(Memory):
    """A memory with the output of every encoder layer, `levels` [B, L, N, D].

    `values` is the last of them.
    """

    levels: Tensor


def first_vectors(stream: Stream, most: int | None, padded_to: int | None) -> tuple[Tensor, Tensor]:
    """Return the first vectors of each image,
    all where `most` is None, [B, N, F], and their mask [B, N].

    With `padded_to` images are filled up to so many vectors with zeros that the mask does not hide.
    """
    values, mask = stream.values[:, :most], stream.mask[:, :most]
    if padded_to is not None:
        values = pad(values.masked_fill(~mask[..., None], 0), (0, 0, 0, padded_to - mask.shape[1]))
        mask = torch.ones(values.shape[:2], dtype=torch.bool, device=mask.device)
    return values, mask


# tokens per beam for which space is made at first; the space doubles when it is used up
INITIAL_TOKENS = 24


@dataclass
class Storage:
    """Tensors that caches share: keys and values of each layer,
    [B, H, capacity, K], of which `written` are in use."""

    layers: list[Sequence[Tensor]]  #: a layer has none before its first token
    written: int = 0

    def copy(self, written: int, images: Tensor | None = None) -> Storage:
        """Return copies of the tensors, of some of the images or of all."""
        layers: list[Sequence[Tensor]] = []
        for pair in self.layers:
            layers.append([x.clone() if images is None else x[images] for x in pair])
        return Storage(layers, written)


@dataclass(frozen=True, eq=False)
class KeyValueCache:
    """Keys and values of the tokens of all beams, for all self-attention layers of a decoder.

    A token of a beam is an entry of its image, written once and never moved. Each beam knows its
    own entries by their numbers, its `ancestry`; a beam that continues another takes over its row
    of numbers, not the tensors of any layer:

        token        0        1        2
        beam 0    entry 0  entry 2  entry 4
        beam 1    entry 1  entry 3  entry 5

    After token 0 both beams continued beam 1: the ancestry of beam 0 is [1, 2, 4], that of beam 1
    is [1, 3, 5].

    A cache is a value, as the state that holds it: `extended` returns the next one. The tensors are
    shared and written in place; two caches that extend the same one would overwrite each other, so
    the second one gets copies.
    """

    ancestry: Tensor  #: [B, C, T], the entries of each beam's tokens
    size: int  #: S, entries per image
    storage: Storage  #: the tensors

    @classmethod
    def empty(cls, images: int, layers: int, device: torch.device) -> KeyValueCache:
        """Return a cache without tokens, with one beam per image."""
        ancestry = torch.zeros(images, 1, 0, dtype=torch.long, device=device)
        return cls(ancestry, 0, Storage([() for _ in range(layers)]))

    def extended(self) -> KeyValueCache:
        """Return a cache with an entry per beam for the next token; each layer has to `append`."""
        images, beams, _ = self.ancestry.shape
        storage = self.storage
        if storage.written != self.size:
            storage = storage.copy(self.size)
        storage.written = size = self.size + beams
        new = torch.arange(self.size, size, device=self.ancestry.device).expand(images, -1)
        return KeyValueCache(torch.cat([self.ancestry, new[..., None]], -1), size, storage)

    def append(self, layer: int, key_value: KeyValue) -> None:
        """Write the newest token of each beam, keys and values [B, C, H, 1, K].

        No gradient passes.
        """
        entries = [x.detach()[:, :, :, 0].transpose(1, 2) for x in key_value]  # [B, H, C, K]
        stored = self.storage.layers[layer] or [x[:, :, :0] for x in entries]
        pairs = zip(stored, entries, strict=True)
        self.storage.layers[layer] = [self._with_entries(*pair) for pair in pairs]

    def _with_entries(self, stored: Tensor, new: Tensor) -> Tensor:
        """Write the newest entries into `stored`, or into a larger copy if it has no space."""
        images, heads, beams, width = new.shape
        first = self.size - beams
        # a graph that writes into what it is given cannot be recorded
        if torch.compiler.is_compiling():
            return torch.cat([stored.narrow(2, 0, first), new], 2)
        capacity = stored.shape[2]
        if self.size > capacity:
            space = max(2 * capacity, self.size + (INITIAL_TOKENS - 1) * beams)
            larger = new.new_empty(images, heads, space, width)
            larger[:, :, :capacity] = stored
            stored = larger
        stored[:, :, first : self.size] = new
        return stored

    def shared(self, layer: int) -> KeyValue:
        """Return all entries, [B, 1, H, S, K], without a copy.

        A beam may attend to those of its `mask`.
        """
        key, value = self.storage.layers[layer]
        return key[:, None, :, : self.size], value[:, None, :, : self.size]

    @property
    def mask(self) -> Tensor:
        """The `attn_mask` [B, C, 1, S] of the shared entries: True for tokens of the beam."""
        shape = (*self.ancestry.shape[:2], self.size)
        own = torch.zeros(shape, dtype=torch.bool, device=self.ancestry.device)
        return own.scatter_(2, self.ancestry, True)[:, :, None]

    def per_beam(self, layer: int) -> KeyValue:
        """Return the tokens of each beam in order, [B, C, H, T, K]:
        copies, for attentions that are costly per pair."""
        key, value = self.storage.layers[layer]
        images = torch.arange(len(key), device=key.device)[:, None, None]
        # whole vectors are copied, where `gather` copies numbers: [B, C, T, H, K]
        keys = key[images, :, self.ancestry]
        values = value[images, :, self.ancestry]
        return keys.transpose(2, 3), values.transpose(2, 3)

    def reorder(self, beams: Tensor) -> KeyValueCache:
        """Return the cache whose beam c of image b continues the old beam `beams[b, c]`.

        Also widens 1 beam to many.
        """
        images = torch.arange(len(beams), device=beams.device)[:, None]
        return replace(self, ancestry=self.ancestry[images, beams])

    def select(self, images: Tensor) -> KeyValueCache:
        """Return the cache of some of the images, given by index: a copy."""
        return replace(
            self, ancestry=self.ancestry[images], storage=self.storage.copy(self.size, images)
        )
