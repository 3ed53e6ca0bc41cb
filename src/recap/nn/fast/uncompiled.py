"""Marks what torch.compile must not follow without importing its compiler, which would cost every job seconds.

`torch.compiler.disable` imports the compiler when it decorates. Here a marked function calls through a cell, whose
content is disabled only when something is about to be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch

Function = TypeVar("Function", bound=Callable[..., Any])
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
