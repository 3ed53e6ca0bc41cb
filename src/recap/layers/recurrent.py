"""An LSTM cell whose input may come in parts, so that what is known beforehand is multiplied beforehand."""

from __future__ import annotations

from torch import Tensor, nn

from recap.layers.linear import LaidOut


class LSTMCell(nn.LSTMCell):
    """torch's LSTM cell, in two halves: W_ih x = sum of the parts' products, then the recurrence."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.laid_out: dict[int, LaidOut] = {-1: LaidOut()}  # by the first column; -1: the recurrence

    def columns(self, first: int, width: int) -> Tensor:
        """Return the weight [4 * R, P] of a part; in a loop cut it once, as the gradient of a cut fills the whole."""
        return self.weight_ih[:, first : first + width]

    def project(self, part: Tensor, first: int, columns: Tensor | None = None) -> Tensor:
        """Multiply the entries [..., P] of the input that begin at column `first` -> [..., 4 * R]."""
        columns = self.columns(first, part.shape[-1]) if columns is None else columns
        return self.laid_out.setdefault(first, LaidOut()).product(part, columns, None)

    def advance(self, projected: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """One step: projected input [..., 4 * R], state h and c [..., R] -> new h and c."""
        gates = projected + self.laid_out[-1].product(h, self.weight_hh, self.bias_ih + self.bias_hh)
        enter, forget, candidate, leave = gates.chunk(4, -1)
        c = forget.sigmoid() * c + enter.sigmoid() * candidate.tanh()
        return leave.sigmoid() * c.tanh(), c
