"""The meshed gate over encoder levels (Cornia et al. 2020, "Meshed-Memory Transformer")."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from recap.nn.fast.linear import Linear
from recap.nn.stack import Stack


class MeshedGate(torch.nn.Module):
    """sum_k sigmoid(W_k [s ; e_k] + b_k) * e_k / sqrt(levels): each encoder level k has a gate of its own.

    Args:
        d_model: width D.
        levels: number of encoder levels.
    """

    def __init__(self, *, d_model: int, levels: int) -> None:
        super().__init__()
        self.gates = Stack[Linear](Linear(2 * d_model, d_model) for _ in range(levels))

    def forward(self, state: Tensor, attended: Sequence[Tensor]) -> Tensor:
        """State s [..., D] and what was found in each level, e_k [..., D] -> [..., D]."""
        gated = [
            gate(torch.cat([state, found], -1)).sigmoid() * found
            for gate, found in zip(self.gates, attended, strict=True)
        ]
        return torch.stack(gated).sum(0) / math.sqrt(len(gated))
