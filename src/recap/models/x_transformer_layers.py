"""The layers of the X-Transformer: two streams, vectors x and their global vector g, side by side."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from recap.layers.attention import KeyValue
from recap.layers.fast.dropout import Dropout
from recap.layers.fast.packing import Words
from recap.layers.feed_forward import FeedForward
from recap.layers.residual import Residual
from recap.layers.x_linear import FeatureMix, XLinear

MakeBlock = Callable[[], XLinear]


class Update(nn.Module):
    """x <- feed_forward(mix(g, x)), with a residual and a norm around each."""

    def __init__(self, *, d_model: int, d_feed_forward: int, dropout: float, mix_dropout: float) -> None:
        super().__init__()
        self.mix = FeatureMix(d_model=d_model, dropout=mix_dropout)
        self.feed_forward = FeedForward(d_model=d_model, d_hidden=d_feed_forward, activation="relu", dropout=dropout)
        self.around_feed_forward = Residual(d_model=d_model, norm="post", norm_kind="biased", dropout=dropout)

    def forward(self, g: Tensor, x: Tensor) -> Tensor:
        """[B, C, 1 or N, D] and [B, C, N, D] -> [B, C, N, D]."""
        return self.around_feed_forward(self.mix(g, x), self.feed_forward)


class XEncoderLayer(nn.Module):
    """g <- block(g, x); x <- update(g, x)."""

    def __init__(self, *, block: XLinear, update: Update, dropout: float) -> None:
        super().__init__()
        self.block, self.update, self.dropout = block, update, Dropout(dropout)

    def forward(self, g: Tensor, x: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
        """[B, 1, 1, D], [B, 1, N, D] and visible [B, 1, 1, N] -> new g and x."""
        g = self.dropout(self.block(g, self.block.keys(x), visible=visible))
        return g, self.update(g, x)


class XDecoderLayer(nn.Module):
    """Words look at words, then at the image; the last layer has no update of the words (`update` None)."""

    def __init__(self, *, d_model: int, words: XLinear, image: XLinear, update: Update | None, dropout: float) -> None:
        super().__init__()
        self.words, self.image, self.update = words, image, update
        self.words_norm, self.image_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        g: Tensor,
        x: Tensor,
        *,
        own: KeyValue,
        visible: Tensor,
        image: KeyValue,
        seen: Tensor,
        words: Words | None = None,
    ) -> tuple[Tensor, Tensor]:
        """One layer over T words.

        Args:
            g, x: [B, C, T, D], or packed [R, D].
            own: the words block's keys of all words so far.
            visible: broadcastable to [B, C, T, words so far].
            image: the image block's keys.
            seen: [B, 1, 1, N], True where an image vector is real.
            words: how g and x are packed, or None.

        Returns:
            New g and x; the last layer returns x as it is.
        """
        y = x + self.dropout(self.words(g, own, visible=visible, words=words))
        looked = self.image(self.words_norm(y), image, visible=seen, words=words)
        g = self.image_norm(y + self.dropout(looked))
        return g, x if self.update is None else self.update(g, x)


def growing_mean(x: Tensor, real: Tensor) -> Tensor:
    """Mean of the real words up to each: [B, C, T, D], [B, C, T] -> [B, C, T, D]."""
    share = real.to(x.dtype)[..., None]
    return (x * share).cumsum(2) / share.cumsum(2).clamp(min=1)


def causal(real: Tensor) -> Tensor:
    """[B, C, T], True where a word is real -> [B, C, T, T], True where row t may see word t' <= t."""
    length = real.shape[-1]
    return real[..., None, :] & torch.ones(length, length, dtype=torch.bool, device=real.device).tril()
