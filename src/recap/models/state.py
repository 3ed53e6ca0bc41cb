"""What a model carries: the memory of encoded images, and the state of decoding between two tokens.

Shape letters as in `recap.layers`: B images, C captions or beams, N vectors, D width.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Memory:
    """What a model keeps of B images: `values` [B, N, D] and `mask` [B, N], True where a vector is real."""

    values: Tensor
    mask: Tensor

    def select(self, images: Tensor) -> Memory:
        """Return the memory of some of the images, given by index."""
        return Memory(self.values[images], self.mask[images])


@dataclass
class State:
    """Everything a model carries between two words.

    `per_beam` tensors are [B, C, ...] and follow their beam; `per_image` tensors are [B, ...] and are shared by the
    beams of an image. A model may write the latter in place; `written` then counts the entries in use and is shared by
    the states that share the tensors, so that two steps from one state do not overwrite each other.
    """

    memory: Memory
    position: int = 0
    per_beam: dict[str, Tensor] = field(default_factory=dict)
    per_image: dict[str, Tensor] = field(default_factory=dict)
    written: list[int] = field(default_factory=lambda: [0])

    def writing(self, size: int, new_size: int) -> State:
        """Return a state whose `per_image` tensors may be written from entry `size` up to `new_size`.

        They are this state's own unless another step was taken from it before: then they are copied.
        """
        if self.written[0] == size:
            self.written[0] = new_size
            return self
        copies = {name: value.clone() for name, value in self.per_image.items()}
        return State(self.memory, self.position, self.per_beam, copies, [new_size])

    def reorder(self, beams: Tensor) -> State:
        """Return the state whose beam c of image b continues the old beam `beams[b, c]`; also widens 1 beam to many."""
        images = torch.arange(len(beams), device=beams.device)[:, None]
        moved = {name: value[images, beams] for name, value in self.per_beam.items()}
        return State(self.memory, self.position, moved, self.per_image, self.written)

    def select(self, images: Tensor) -> State:
        """Return the state of some of the images, given by index."""
        return State(
            self.memory.select(images),
            self.position,
            {name: value[images] for name, value in self.per_beam.items()},
            {name: value[images] for name, value in self.per_image.items()},
            list(self.written),
        )
