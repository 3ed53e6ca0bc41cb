"""Attention masks, with one convention: `attn_mask` is boolean, True = may attend, and broadcasts to [B, C, T, N].

The caller of an attention builds its mask; None masks nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

MASKED_SCORE = -1e9  # of masked positions; finite, so that a fully masked row does not become NaN


def causal_mask(length: int, device: torch.device) -> Tensor:
    """Return [1, 1, T, T]: token t may attend to tokens t' <= t."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


def key_mask(mask: Tensor) -> Tensor:
    """Mask of keys [B, N] -> [B, 1, 1, N]; of keys that differ between captions [B, C, N] -> [B, C, 1, N]."""
    return mask[:, None, None] if mask.dim() == 2 else mask[:, :, None]


def needed(mask: Tensor) -> Tensor | None:
    """Return the mask, or None if it hides nothing, which saves its use.

    Asking would stall a GPU, where masks cost little, or cut a graph.
    """
    return None if asks(mask) and bool(mask.all()) else mask


def asks(mask: Tensor) -> bool:
    """Return whether a mask is asked if it hides anything."""
    return mask.device.type == "cpu" and not torch.compiler.is_compiling()
