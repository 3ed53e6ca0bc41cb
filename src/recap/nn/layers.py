"""Small layers: activations, dropout, feed-forward, norms, residuals, an LSTM cell, lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from recap.nn.fast import Linear, product

ACTIVATIONS: dict[str, Callable[..., nn.Module]] = {
    "none": nn.Identity,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu_tanh": partial(nn.GELU, approximate="tanh"),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "elu": nn.ELU,  # these two take their scale, `alpha`
    "celu": nn.CELU,
}


def dropout_mask(shape: torch.Size, p: float, device: torch.device) -> tuple[Tensor, float]:
    """Draw which entries dropout at rate p keeps, uint8 of this shape, and return their factor.

    On a CPU p is rounded to 1 / 65,536: torch's generator gives the bits of four entries in one
    draw.
    """
    if device.type != "cpu":
        return torch.empty(shape, dtype=torch.uint8, device=device).bernoulli_(1 - p), 1 / (1 - p)
    steps = min(round(p * 2**16), 2**16 - 1)
    bits = (
        torch.empty(-(-shape.numel() // 4), dtype=torch.long)
        .random_(-(2**63), None)
        .view(torch.int16)
    )
    mask = bits[: shape.numel()].view(shape) >= steps - 2**15
    # numbers multiply twice as fast as truth values
    return mask.view(torch.uint8), 2**16 / (2**16 - steps)


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """torch's dropout; on a CPU with the mask of `dropout_mask`, in half of torch's time."""
    if not training or not p or x.device.type != "cpu" or torch.compiler.is_compiling():
        return functional.dropout(x, p, training)
    mask, factor = dropout_mask(x.shape, p, x.device)
    return x * mask.to(x.dtype).mul_(factor)


class Dropout(nn.Dropout):
    """torch's layer, by `dropout` above; all models take it."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same."""
        return dropout(x, self.p, self.training)


class FeedForward(nn.Module):
    """Linear, activation (`none` in some released code), dropout, linear: [..., D] -> [..., D]."""

    def __init__(self, *, d_model: int, d_hidden: int, activation: str, dropout: float) -> None:
        super().__init__()
        self.inner = Linear(d_model, d_hidden)
        self.activation = ACTIVATIONS[activation]()
        self.dropout = Dropout(dropout)
        self.outer = Linear(d_hidden, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        return self.outer(self.dropout(self.activation(self.inner(x))))


class UnbiasedLayerNorm(nn.Module):
    """gain * (x - mean) / (unbiased std + 1e-6) + shift, as in the Annotated Transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        deviation, mean = torch.std_mean(x, -1, keepdim=True)
        return self.weight * (x - mean) / (deviation + 1e-6) + self.bias


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "biased": nn.LayerNorm,
    "unbiased": UnbiasedLayerNorm,
}


class Residual(nn.Module):
    """x + dropout(f(norm(x))) for `pre`, norm(x + dropout(f(x))) for `post`.

    [..., D] -> [..., D].
    """

    def __init__(self, *, d_model: int, norm: str, norm_kind: str, dropout: float) -> None:
        super().__init__()
        self.pre = norm == "pre"
        self.norm = NORMS[norm_kind](d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """[..., D] -> [..., D]."""
        return self.after(x, sublayer(self.before(x)))

    def before(self, x: Tensor) -> Tensor:
        """Return what f reads, [..., D]."""
        return self.norm(x) if self.pre else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """Add f's output y, [..., D] -> [..., D]."""
        added = x + self.dropout(y)
        return added if self.pre else self.norm(added)


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Return codes [P, width] of positions [P], in their type:
    float32 gives the very bits of released code.

    Even columns are sin(pos / 10000^(i/D)), odd columns the cosine of the same angle.
    """
    rates = torch.exp(
        torch.arange(0, width, 2, dtype=positions.dtype) * (-math.log(10000.0) / width)
    )
    table = torch.zeros(len(positions), width, dtype=positions.dtype)
    table[:, 0::2] = torch.sin(positions[:, None] * rates)
    table[:, 1::2] = torch.cos(positions[:, None] * rates)[:, : width // 2]
    return table


def sinusoid_table(length: int, width: int) -> Tensor:
    """Return float32 [length, width] of the positions 0, 1, .., as `sinusoids`."""
    return sinusoids(torch.arange(length, dtype=torch.float32), width)


def grid_table(positions: Tensor, width: int) -> Tensor:
    """Return [side * side, width] for cells in raster order, whose rows and columns are at
    `positions` [side]: half the columns code the row, half the column.

    The width is divisible by 4, which settings check.
    """
    side = len(positions)
    line = sinusoids(positions, width // 2)
    rows = line[:, None].expand(side, side, -1)
    columns = line[None].expand(side, side, -1)
    return torch.cat([rows, columns], -1).flatten(0, 1)


class LSTMCell(nn.LSTMCell):
    """torch's LSTM cell in two halves: W_ih x as a sum over parts of x, then the recurrence."""

    def project_input(self, part: Tensor, first: int) -> Tensor:
        """Project the entries [..., P] of the input from column `first` on -> [..., 4 * R]."""
        return product(part, self.weight_ih, None, first=first)

    def step(self, projected: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """One time step: projected input [..., 4 * R], state h and c [..., R] -> new h and c."""
        gates = projected + product(h, self.weight_hh, None) + (self.bias_ih + self.bias_hh)
        i, f, g, o = gates.chunk(4, -1)  # input, forget, cell, output
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


LayerT = TypeVar("LayerT", bound=nn.Module)


class Stack(nn.ModuleList, Generic[LayerT]):
    """`nn.ModuleList` that knows the type of its modules."""

    def __iter__(self) -> Iterator[LayerT]:
        return cast(Iterator[LayerT], super().__iter__())
