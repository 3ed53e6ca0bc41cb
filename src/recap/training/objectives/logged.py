"""What an objective returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True)
class Logged:
    """The loss of a batch, and numbers to log beside it.

    Attributes:
        loss: scalar, the mean over `num_tokens` tokens.
        num_tokens: what the loss and the numbers weigh where several processes share a batch.
        numbers: means to log, by name (columns of history.csv); a stage logs the same names in every step.
    """

    loss: Tensor
    num_tokens: int
    numbers: dict[str, float] = field(default_factory=dict)
