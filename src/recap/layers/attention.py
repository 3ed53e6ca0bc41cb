"""Scaled dot-product attention with several heads (Vaswani et al. 2017, Eq. 1).

The captions of one image share its keys and values: they are projected once an image and attended to by all captions
as one block of query rows, which is what keeps decoding and training cheap.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from recap.layers.fast.linear import Linear
from recap.layers.fast.packing import Words, pack, spread

KeyValue = tuple[Tensor, Tensor]  # each [B, C or 1, H, N, K]
Carry = tuple[Tensor, ...]  # what an attention hands from word to word beside its keys; empty for most
HIDDEN_SCORE = -1e9  # of a place that may not be seen; finite, so that a row that sees nothing is no NaN


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, C, T, D] -> [B, C, H, T, K]."""
    return x.unflatten(-1, (heads, -1)).transpose(2, 3)


def merge_heads(x: Tensor) -> Tensor:
    """[B, C, H, T, K] -> [B, C, T, D]."""
    return x.transpose(2, 3).flatten(-2)


def captions_as_rows(x: Tensor) -> Tensor:
    """[B, C, H, T, K] -> [B, H, C * T, K]: the captions of an image become query rows against its shared keys."""
    return x.transpose(1, 2).flatten(2, 3)


def rows_as_captions(x: Tensor, captions: int) -> Tensor:
    """[B, H, C * T, K] -> [B, C, H, T, K]; undoes `captions_as_rows`."""
    return x.unflatten(2, (captions, -1)).transpose(1, 2)


def shared_product(rows: Tensor, keys: Tensor) -> Tensor:
    """[B, C, H, T, X] times [B, C or 1, H, X, Y] -> [B, C, H, T, Y], without copying shared keys."""
    if keys.shape[1] == rows.shape[1]:
        return rows @ keys
    return rows_as_captions(captions_as_rows(rows) @ keys[:, 0], rows.shape[1])


def causal_mask(length: int, device: torch.device) -> Tensor:
    """Return [T, T], True where row t may see column t' <= t."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def rows_of_mask(mask: Tensor) -> Tensor:
    """[B, N], or [B, C, N] where each caption has a mask of its own -> [B, 1 or C, 1, 1, N]."""
    return mask[:, None, None, None, :] if mask.dim() == 2 else mask[:, :, None, None, :]


class Attention(nn.Module):
    """What every attention of an encoder-decoder offers; see `MultiHeadAttention` for shapes."""

    @property
    def packs(self) -> bool:
        """Whether padding may be left out of the query: no row's result depends on padded rows."""
        return True

    @property
    def counts_masks(self) -> bool:
        """Whether a mask that hides nothing gives another result than no mask, so that it may not be left out."""
        return False

    def keys(self, source: Tensor, *, words: Words | None = None) -> KeyValue:
        """Project what is attended to."""
        raise NotImplementedError

    def start(self, images: int, captions: int, like: Tensor) -> Carry:
        """Return what the first word carries."""
        raise NotImplementedError

    def forward(
        self,
        query: Tensor,
        keys: KeyValue,
        *,
        mask: Tensor | None = None,
        real: Tensor | None = None,
        causal: bool = False,
        carry: Carry = (),
        words: Words | None = None,
    ) -> tuple[Tensor, Carry]:
        """Attend."""
        raise NotImplementedError


class MultiHeadAttention(Attention):
    """Multi-head attention with biases on all four projections.

    Args:
        d_model: width D, divisible by `heads`.
        heads: number of heads H.

    Raises:
        ValueError: D is not divisible by H.
    """

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__()
        if d_model % heads:
            raise ValueError(f"d_model {d_model} is not divisible by {heads} heads")
        self.heads = heads
        self.query = Linear(d_model, d_model)
        self.key = Linear(d_model, d_model)
        self.value = Linear(d_model, d_model)
        self.output = Linear(d_model, d_model)

    def keys(self, source: Tensor, *, words: Words | None = None) -> KeyValue:
        """Project what is attended to: [B, C or 1, N, D], or packed [R, D] -> keys and values [B, C or 1, H, N, K]."""
        key, value = spread(self.key(source), words), spread(self.value(source), words)
        return split_heads(key, self.heads), split_heads(value, self.heads)

    def start(self, images: int, captions: int, like: Tensor) -> Carry:
        """Return what the first word carries: nothing."""
        return ()

    def forward(
        self,
        query: Tensor,
        keys: KeyValue,
        *,
        mask: Tensor | None = None,
        real: Tensor | None = None,
        causal: bool = False,
        carry: Carry = (),
        words: Words | None = None,
    ) -> tuple[Tensor, Carry]:
        """Attend.

        Args:
            query: [B, C, T, D], or packed [R, D].
            keys: keys and values, [B, C or 1, H, N, K].
            mask: [B, N], True where a vector is real; None when all are; [B, C, N] where captions see different ones.
            real: [B, T], or [B, C, T] where captions differ, True where a query row is no padding; of use only to
                attentions that pool over rows.
            causal: row t sees columns up to t (then N = T).
            carry: unused here; see `recap.layers.zoneup`.
            words: how the query is packed, or None.

        Returns:
            [B, C, T, D] (packed as the query) and the carry for the next word.
        """
        q = split_heads(spread(self.query(query), words), self.heads)  # [B, C, H, T, K]
        k, v = keys
        captions, rows = q.shape[1], q.shape[3]
        visible = None if mask is None else rows_of_mask(mask)[:, :, 0]  # [B, 1 or C, 1, N]
        if k.shape[1] == captions:  # every caption has keys of its own
            if visible is not None:
                visible = visible.expand(-1, captions, -1, -1).flatten(0, 1)[:, None]
            q, k, v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)  # [B * C, H, T or N, K]
            attended = scaled_dot_product_attention(q, k, v, attn_mask=visible, is_causal=causal)
            attended = attended.unflatten(0, (-1, captions))
        else:
            if visible is not None and visible.shape[1] > 1:  # captions as rows, like the query
                visible = visible.expand(-1, -1, rows, -1).flatten(1, 2)[:, None]
            attended = scaled_dot_product_attention(captions_as_rows(q), k[:, 0], v[:, 0], attn_mask=visible)
            attended = rows_as_captions(attended, captions)
        return self.output(pack(merge_heads(attended), words)), carry
