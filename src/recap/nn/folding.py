"""Captions that share the keys of their image, as query rows against them: keys are never copied for each caption."""

from __future__ import annotations

from torch import Tensor


def fold(x: Tensor, shared: bool) -> Tensor:
    """Bring rows to the batch axis of the keys: [B, C, H, T, K] -> [B', H, R, K].

    Keys that the captions of an image share are not copied for them: the captions become R = C * T query rows of
    B' = B images. Otherwise every caption is a separate image: B' = B * C, R = T.
    """
    return x.transpose(1, 2).flatten(2, 3) if shared else x.flatten(0, 1)


def unfold(x: Tensor, captions: int, shared: bool) -> Tensor:
    """Undo `fold`: [B', H, R, K] -> [B, C, H, T, K]."""
    return x.unflatten(2, (captions, -1)).transpose(1, 2) if shared else x.unflatten(0, (-1, captions))


def fold_mask(attn_mask: Tensor, shape: tuple[int, ...], shared: bool) -> Tensor:
    """Bring a mask, broadcastable to [B, C, T, N], to the axes of folded rows of shape B, C, T.

    Returns:
        [B', 1, R or 1, N], or a mask of all captions, [1, 1, T, N], as it is.
    """
    images, captions, length = shape
    if not shared and attn_mask.shape[:2] == (1, 1):
        return attn_mask
    if not shared:
        return attn_mask.expand(images, captions, -1, -1).flatten(0, 1)[:, None]
    if attn_mask.shape[1:3] == (1, 1):
        return attn_mask.expand(images, -1, -1, -1)
    return attn_mask.expand(images, captions, length, -1).flatten(1, 2)[:, None]


def shared_product(rows: Tensor, keys: Tensor) -> Tensor:
    """[B, C, H, T, X] times [B, C or 1, H, X, Y] -> [B, C, H, T, Y], without copying shared keys."""
    if keys.shape[1] == rows.shape[1]:
        return rows @ keys
    return unfold(fold(rows, True) @ keys[:, 0], rows.shape[1], True)
