"""Attention masks, with one convention: `attn_mask` is boolean, True = may attend, and broadcasts to [B, C, T, N].

The caller of an attention builds its mask; None masks nothing.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

MASKED_SCORE = -1e9  # of masked positions; finite, so that a fully masked row does not become NaN


def causal_mask(length: int, device: torch.device) -> Tensor:
    """Return [1, 1, T, T], always the same tensor unless compiled: token t may attend to tokens t' <= t."""
    make = _causal_mask if torch.compiler.is_compiling() else _kept_causal_mask
    return make(length, device)


def is_causal(mask: Tensor) -> bool:
    """Return whether a mask is that of `causal_mask`, which fused attention can do without; its values are not read."""
    square = mask.shape[:2] == (1, 1) and mask.shape[2] == mask.shape[3]
    return square and not torch.compiler.is_compiling() and mask is causal_mask(mask.shape[2], mask.device)


def _causal_mask(length: int, device: torch.device) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


@cache
def _kept_causal_mask(length: int, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # a tensor made in that mode could not take part in a later training
        return _causal_mask(length, device)


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
