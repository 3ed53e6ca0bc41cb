"""The linear layer of all models, whose weights are laid out for the processor while nothing is learnt."""

from __future__ import annotations

from typing import Any, Self, cast

import torch
from torch import Tensor, nn


class Linear(nn.Linear):
    """x W' + b as `torch.nn.Linear`; without a gradient the product runs over weights packed for oneDNN.

    Decoding multiplies a few rows (images times beams) with the same weights for each word. The general product packs
    the weights in every call, which for 50 rows costs a third of its time and for 10 rows more than half. Here they are
    packed once, at the first use without a gradient, and again when they have changed in place or `train` or `eval` was
    called. The packed copy doubles the memory of the weights; a copy or a saved file of the module leaves it out.

    Only float32 on a processor is packed; everything else is the general product.
    """

    _packed: Tensor | None = None
    _packed_from: tuple[int, int] | None = None  # address and version of the weights that were packed

    def forward(self, input: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or not self._packable(input):
            return super().forward(input)
        return cast(Tensor, torch.ops.mkldnn._linear_pointwise(input, self._weights(), self.bias, "none", [], ""))

    def _packable(self, x: Tensor) -> bool:
        same = x.dtype == self.weight.dtype == torch.float32 and x.device.type == self.weight.device.type == "cpu"
        plain = not torch.is_autocast_enabled("cpu") and not self.weight.is_inference()
        return same and plain and x.dim() > 1 and torch.backends.mkldnn.is_available()

    def _weights(self) -> Tensor:
        now = (self.weight.data_ptr(), self.weight._version)
        if self._packed is None or self._packed_from != now:
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach())
            self._packed_from = now
        return self._packed

    def train(self, mode: bool = True) -> Self:
        """Set the mode and forget the packed weights: a change through `weight.data` leaves no other trace."""
        self._packed = self._packed_from = None
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the packed weights out of copies."""
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_packed")}
