"""LSTM cell with a split input projection, so that constant parts of its input are projected once."""

from __future__ import annotations

from torch import Tensor, nn

from recap.nn.fast import product


class LSTMCell(nn.LSTMCell):
    """torch's LSTM cell in two halves: W_ih x as a sum over parts of x, then the recurrence."""

    def project_input(self, part: Tensor, first: int) -> Tensor:
        """Project the entries [..., P] of the input that begin at column `first` -> [..., 4 * R]."""
        return product(part, self.weight_ih, None, first=first)

    def step(self, projected: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """One time step: projected input [..., 4 * R], state h and c [..., R] -> new h and c."""
        gates = projected + product(h, self.weight_hh, None) + (self.bias_ih + self.bias_hh)
        i, f, g, o = gates.chunk(4, -1)  # input, forget, cell, output
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
