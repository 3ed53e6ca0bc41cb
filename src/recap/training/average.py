"""An exponential moving average of the weights: smoother than the last step, and better on little data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class WeightAverage:
    """Averages parameters after every step t: average = d * average + (1 - d) * weights, from a copy of them on.

    d = min(decay, (1 + t) / (10 + t)): so that the first weights are soon forgotten.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], decay: float) -> None:
        self.parameters, self.decay = list(parameters), decay
        self.averages = [parameter.detach().clone() for parameter in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after a step, counted from 1."""
        decay = min(self.decay, (1 + step) / (10 + step))
        get_ema_multi_avg_fn(decay)(self.averages, [parameter.detach() for parameter in self.parameters], step)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within, the model has the averages for weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def load(self, averages: Sequence[Tensor]) -> None:
        """Go on from saved averages."""
        for mine, saved in zip(self.averages, averages, strict=True):
            mine.copy_(saved)

    def _swap(self) -> None:
        for index, parameter in enumerate(self.parameters):
            parameter.data, self.averages[index] = self.averages[index], parameter.data
