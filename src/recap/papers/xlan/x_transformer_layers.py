"""The layers of the X-Transformer: two streams, vectors x and their global vector g, side by side."""

from __future__ import annotations

from torch import Tensor, nn

from recap.nn.attention import KeyValue
from recap.nn.fast import Dropout
from recap.nn.layers import FeedForward, Residual
from recap.nn.rows import Rows
from recap.papers.xlan.x_linear import FeatureMix, XLinear


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

    def forward(self, g: Tensor, x: Tensor, attn_mask: Tensor) -> tuple[Tensor, Tensor]:
        """[B, 1, 1, D], [B, 1, N, D] and a mask [B, 1, 1, N] -> new g and x."""
        attended = self.block(Rows(g), self.block.key_value(Rows(x)), attn_mask=attn_mask).values
        g = self.dropout(attended)
        return g, self.update(g, x)


class XDecoderLayer(nn.Module):
    """Tokens attend to tokens, then to the image; the last layer has no update of the tokens (`update` None)."""

    def __init__(self, *, d_model: int, words: XLinear, image: XLinear, update: Update | None, dropout: float) -> None:
        super().__init__()
        self.words, self.image, self.update = words, image, update  # of the tokens so far, of the image
        self.words_norm, self.image_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(
        self, g: Rows, x: Rows, *, tokens: KeyValue, self_mask: Tensor, image: KeyValue, cross_mask: Tensor
    ) -> tuple[Rows, Rows]:
        """One layer over T tokens: rows g and x of [B, C, T, D] -> new g and x; the last layer returns x as it is.

        Args:
            g, x: the tokens.
            tokens: keys and values of all tokens so far, from the block `words`.
            self_mask: of the tokens, broadcastable to [B, C, T, tokens so far].
            image, cross_mask: keys and values of the image, from the block `image`, and its mask [B, 1, 1, N].
        """
        y = x.values + self.dropout(self.words(g, tokens, attn_mask=self_mask).values)
        cross_out = self.image(x.like(self.words_norm(y)), image, attn_mask=cross_mask).values
        g = x.like(self.image_norm(y + self.dropout(cross_out)))
        return g, x if self.update is None else x.like(self.update(g.values, x.values))


def running_mean(x: Tensor, token_mask: Tensor) -> Tensor:
    """Mean of the tokens up to each one, without padding: [B, C, T, D], [B, C, T] -> [B, C, T, D]."""
    weights = token_mask.to(x.dtype)[..., None]
    return (x * weights).cumsum(2) / weights.cumsum(2).clamp(min=1)
