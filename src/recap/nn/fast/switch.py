"""Whether fast paths and the fast RAdam are taken; `RECAP_FAST=0` in the environment: plain torch.

Without them results agree up to rounding, but for the dropout of X-Linear's joint layer, whose masks are drawn in other
pieces. Beside it what hand-written functions need.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

_enabled = os.environ.get("RECAP_FAST", "1") != "0"


def fast() -> bool:
    """Return whether fast paths are taken."""
    return _enabled


def as_autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return tensors in the type in which autocast multiplies; outside of autocast as they are."""
    kind = tensors[0].device.type
    if not torch.is_autocast_enabled(kind):
        return tensors
    return tuple(tensor.to(torch.get_autocast_dtype(kind)) for tensor in tensors)


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
