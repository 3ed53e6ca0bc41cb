"""The activations that a configuration may name."""

from __future__ import annotations

from collections.abc import Callable, Collection

from torch import nn

ACTIVATIONS: dict[str, Callable[[float], nn.Module]] = {
    "none": lambda _alpha: nn.Identity(),
    "relu": lambda _alpha: nn.ReLU(),
    "gelu": lambda _alpha: nn.GELU(),
    "gelu_tanh": lambda _alpha: nn.GELU(approximate="tanh"),
    "tanh": lambda _alpha: nn.Tanh(),
    "sigmoid": lambda _alpha: nn.Sigmoid(),
    "elu": nn.ELU,
    "celu": nn.CELU,
}


def activation(name: str, *, known: Collection[str] = tuple(ACTIVATIONS), alpha: float = 1.0) -> nn.Module:
    """Return an activation without parameters, one of those known; `alpha` is the scale of elu and celu."""
    if name not in known:
        raise ValueError(f"unknown activation {name!r}; known are {[*known]}")
    return ACTIVATIONS[name](alpha)
