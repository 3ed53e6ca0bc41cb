"""An LSTM cell whose input may come in parts, so that what is known beforehand is multiplied beforehand."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import linear


class LSTMCell(nn.LSTMCell):
    """torch's LSTM cell, in two halves: W_ih x = sum of the parts' products, then the recurrence."""

    def project(self, part: Tensor, first: int) -> Tensor:
        """Multiply the entries [..., P] of the input that begin at column `first` -> [..., 4 * R]."""
        return linear(part, self.weight_ih[:, first : first + part.shape[-1]])

    def advance(self, projected: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """One step: projected input [..., 4 * R], state h and c [..., R] -> new h and c."""
        gates = projected + linear(h, self.weight_hh, self.bias_ih + self.bias_hh)
        enter, forget, candidate, leave = gates.chunk(4, -1)
        c = forget.sigmoid() * c + enter.sigmoid() * candidate.tanh()
        return leave.sigmoid() * c.tanh(), c
