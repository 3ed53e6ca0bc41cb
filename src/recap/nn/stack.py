"""A list of layers of one type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar, cast

from torch import nn

LayerT = TypeVar("LayerT", bound=nn.Module)


class Stack(nn.ModuleList, Generic[LayerT]):
    """`nn.ModuleList` that knows the type of its modules."""

    def __iter__(self) -> Iterator[LayerT]:
        """Yield the layers in order."""
        return cast(Iterator[LayerT], super().__iter__())
