"""Self-resurrecting activation units of VisualGPT (Chen et al. 2022, section 4.1): two gates, one of which may be zero.

The released form, from which the paper's numbers come, learns the gate of each encoder level k, sums over the levels
and lets the gate weigh the language side:

    alpha_k = sigmoid(W_k [a ; E_k] + b_k)
    B_lan = alpha_k 1(alpha_k > tau),  B_vis = (1 - alpha_k) 1(1 - alpha_k > tau)
    z = sum_k (B_lan a + B_vis E_k) / sqrt(L)

The printed form (Eq. 5) has no parameters: the gate is a sigmoid of the state a itself and weighs the visual side.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, leaky_relu

from recap.nn.fast import Linear

GATES: dict[str, Callable[[Tensor], Tensor]] = {"sigmoid": torch.sigmoid, "leaky_relu": leaky_relu, "gelu": gelu}


class SelfResurrecting(nn.Module):
    """The state a [..., D] and what L levels gave for it, [L, ..., D] -> [..., D].

    Args:
        d_model: width D.
        levels: number of levels L.
        form: "released", or "paper" (Eq. 5).
        tau: a gate that is not above it is zero; 0: complementary gates.
        activation: sigmoid; leaky_relu or gelu, which have no upper limit, so that the training diverges (section 5.4).
        normalized: each gate over the sum of both (Eq. 6).
    """

    def __init__(self, *, d_model: int, levels: int, form: str, tau: float, activation: str, normalized: bool) -> None:
        super().__init__()
        if form not in ("released", "paper") or activation not in GATES:
            raise ValueError(f"unknown gate {form!r} with {activation!r}; known are released, paper with {[*GATES]}")
        self.tau, self.normalized, self.activation = tau, normalized, GATES[activation]
        self.gates = nn.ModuleList(Linear(2 * d_model, d_model) for _ in range(levels)) if form == "released" else None
        self.visual, self.language = nn.Identity(), nn.Identity()  # see `recap.papers.visualgpt.figures`

    def forward(self, state: Tensor, found: Tensor) -> Tensor:
        """Weigh the state [..., D] against each level's [L, ..., D] -> [..., D]."""
        total = torch.zeros_like(state)
        for level, seen in enumerate(found):
            visual, language = self.pair(state, seen, level)
            total = total + self.visual(visual) * seen + self.language(language) * state
        return total / math.sqrt(len(found))

    def pair(self, state: Tensor, seen: Tensor, level: int) -> tuple[Tensor, Tensor]:
        """Return B_vis and B_lan of one level, each [..., D]."""
        if self.gates is None:
            visual = self.activation(state)
        else:
            visual = 1 - self.activation(self.gates[level](torch.cat([state, seen], -1)))
        language = 1 - visual
        visual, language = (gate * (gate > self.tau) for gate in (visual, language))
        if not self.normalized:
            return visual, language
        both = visual + language
        return visual / both, language / both
