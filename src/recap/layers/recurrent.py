"""An LSTM cell whose input may come in parts, so that what is known beforehand is multiplied beforehand."""

from __future__ import annotations

from torch import Tensor, nn

from recap.layers.fast.deferred import Deferred
from recap.layers.fast.linear import product

RECURRENCE = -1  # in place of a column: W_hh


class LSTMCell(nn.LSTMCell):
    """torch's LSTM cell, in two halves: W_ih x = sum of the parts' products, then the recurrence."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.deferred: dict[int, Deferred] | None = None  # within a loop

    def project(self, part: Tensor, first: int) -> Tensor:
        """Multiply the entries [..., P] of the input that begin at column `first` -> [..., 4 * R]."""
        return self._product(part, self.weight_ih[:, first : first + part.shape[-1]], first)

    def defer(self, begin: bool) -> None:
        """Begin or end a loop, within which weights collect their gradient; see `recap.layers.fast.deferred`."""
        for deferred in (self.deferred or {}).values():
            deferred.close()
        self.deferred = {} if begin else None

    def _product(self, x: Tensor, weight: Tensor, name: int) -> Tensor:
        if self.deferred is None:
            return product(x, weight, None)
        if name not in self.deferred:
            self.deferred[name] = Deferred(weight)
        return self.deferred[name].product(x)

    def advance(self, projected: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """One step: projected input [..., 4 * R], state h and c [..., R] -> new h and c."""
        gates = projected + self._product(h, self.weight_hh, RECURRENCE) + (self.bias_ih + self.bias_hh)
        enter, forget, candidate, leave = gates.chunk(4, -1)
        c = forget.sigmoid() * c + enter.sigmoid() * candidate.tanh()
        return leave.sigmoid() * c.tanh(), c
