"""Autocast casts what torch's own operators take; a hand-written function has its inputs cast here."""

from __future__ import annotations

import torch
from torch import Tensor


def as_autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return tensors in the type in which autocast multiplies; outside of autocast as they are."""
    kind = tensors[0].device.type
    if not torch.is_autocast_enabled(kind):
        return tensors
    return tuple(tensor.to(torch.get_autocast_dtype(kind)) for tensor in tensors)
