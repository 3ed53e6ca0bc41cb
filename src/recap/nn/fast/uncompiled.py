"""Marks what torch.compile must not follow without importing its compiler, which would cost every job seconds.

`torch.compiler.disable` imports the compiler when it decorates. Here a marked function calls through a cell, whose
content is disabled only when something is about to be compiled. The methods of torch's optimizers import it when they
are first called; `uncompiled_optimizer` takes them without what is wrapped around them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from typing import Any, TypeVar, cast

import torch

Function = TypeVar("Function", bound=Callable[..., Any])
# The methods of an optimizer that import the compiler, beside `step`, which also turns gradients off.
_METHODS = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
_cells: list[list[Callable[..., Any]]] = []  # each holds one marked function, as it is to be called


def uncompiled(function: Function) -> Function:
    """Mark a function that a compiler cannot follow; it runs as it is within compiled passes."""
    cell: list[Callable[..., Any]] = [function]
    _cells.append(cell)

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return cell[0](*arguments, **named)

    return cast(Function, call)


def prepare_compilation() -> None:
    """Keep the compiler out of the marked functions; call it before `torch.compile`."""
    while _cells:
        cell = _cells.pop()
        cell[0] = torch.compiler.disable(cell[0])


def uncompiled_optimizer(kind: type[torch.optim.Optimizer]) -> Any:
    """Return an optimizer class of torch as one that takes the same steps and cannot be compiled."""
    methods = {name: unwrap(getattr(kind, name)) for name in _METHODS}
    return type(kind.__name__, (kind,), {**methods, "step": torch.no_grad()(unwrap(kind.step))})
