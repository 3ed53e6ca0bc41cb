"""Position-wise feed-forward block (Vaswani et al. 2017, Eq. 2), with the activation as an option."""

from __future__ import annotations

from torch import Tensor, nn

from recap.nn.activations import activation as make_activation
from recap.nn.fast import Dropout, Linear


class FeedForward(nn.Module):
    """Linear, activation, dropout, linear: [..., D] -> [..., D].

    Some released code has no activation here (`none`).
    """

    def __init__(self, *, d_model: int, d_hidden: int, activation: str, dropout: float) -> None:
        super().__init__()
        self.inner = Linear(d_model, d_hidden)
        self.activation = make_activation(activation, known=("none", "relu", "gelu", "gelu_tanh"))
        self.dropout = Dropout(dropout)
        self.outer = Linear(d_hidden, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        return self.outer(self.dropout(self.activation(self.inner(x))))
