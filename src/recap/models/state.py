"""What a model carries: the memory of encoded images, and the state of decoding between two tokens.

Some keep more of an image than its vectors: a summary, or the outputs of all encoder layers. Shape letters as in
`recap.nn`: B images, C captions or beams, N vectors, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from recap.models.images import Stream

PER_BEAM = {"per": "beam"}
"""Metadata of a state's field that follows its beam: `h: Tensor = field(metadata=PER_BEAM)`."""


@dataclass(frozen=True)
class Memory:
    """What a model keeps of B images: `values` [B, N, D] and `mask` [B, N], True where a vector is real.

    A model may add fields in a subclass: tensors [B, ...], objects with `select`, tuples of such, or None.
    """

    values: Tensor
    mask: Tensor

    def select(self, images: Tensor) -> Self:
        """Return the memory of some of the images, given by index."""
        return replace(self, **{field.name: _selected(getattr(self, field.name), images) for field in fields(self)})


MemoryT = TypeVar("MemoryT", bound=Memory)


@dataclass(frozen=True)
class State(Generic[MemoryT]):
    """What a model carries between two tokens; each model adds its own fields in a subclass.

    A field is a tensor, an object with `reorder` and `select` such as `recap.models.cache.KeyValueCache`, or a tuple of
    such. Those marked `PER_BEAM` are [B, C, ...] and follow their beam; all others are [B, ...], shared by the beams.
    """

    memory: MemoryT  #: the images
    position: int = 0  #: how many tokens each beam has

    def reorder(self, beams: Tensor) -> Self:
        """Return the state whose beam c of image b continues the old beam `beams[b, c]`; also widens 1 beam to many."""
        images = torch.arange(len(beams), device=beams.device)[:, None]

        def moved(value: Any) -> Any:
            return value[images, beams] if isinstance(value, Tensor) else value.reorder(beams)

        own = {field.name: getattr(self, field.name) for field in fields(self) if field.metadata == PER_BEAM}
        return replace(self, **{name: _mapped(moved, value) for name, value in own.items()})

    def select(self, images: Tensor) -> Self:
        """Return the state of some of the images, given by index."""
        names = (field.name for field in fields(self) if field.name != "position")
        return replace(self, **{name: _selected(getattr(self, name), images) for name in names})


StateT = TypeVar("StateT", bound=State[Any])


def _selected(value: Any, images: Tensor) -> Any:
    """Return what belongs to some of the images."""

    def select(leaf: Any) -> Any:
        return leaf[images] if isinstance(leaf, Tensor) else leaf.select(images)

    return _mapped(select, value)


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
    """A memory with the output of every encoder layer, `levels` [B, L, N, D]; `values` is the last of them."""

    levels: Tensor

    def select(self, images: Tensor) -> Self:
        """Return the memory of some of the images, given by index."""
        levels = self.levels[images]
        return replace(self, values=levels[:, -1], mask=self.mask[images], levels=levels)


def first_vectors(stream: Stream, most: int | None, padded_to: int | None) -> tuple[Tensor, Tensor]:
    """Return the first vectors of each image, all where `most` is None, [B, N, F], and their mask [B, N].

    With `padded_to` images are filled up to so many vectors with zeros that the mask does not hide.
    """
    values, mask = stream.values[:, :most], stream.mask[:, :most]
    if padded_to is not None:
        values = pad(values.masked_fill(~mask[..., None], 0), (0, 0, 0, padded_to - mask.shape[1]))
        mask = torch.ones(values.shape[:2], dtype=torch.bool, device=mask.device)
    return values, mask
