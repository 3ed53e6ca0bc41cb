"""Encoder-decoder Transformer for captioning: the baseline of four of the five papers.

Paper: Vaswani et al. 2017, "Attention Is All You Need", on image features as in Sharma et al. 2018.
Realised as the papers' code bases have it (Annotated Transformer lineage): features -> linear, ReLU, dropout 0.5, no
positions on the visual side; word embedding times sqrt(D) plus sinusoids; untied output layer; Xavier initialisation.
Departs: norms use the biased variance (`layer_norm: unbiased` gives the code's form); 6+6 pre-norm layers by default,
3 and post-norm by option; with biases everywhere.
Expected: 54.9 M parameters with 2048-d features, D 512, 6+6 layers and COCO's 9,487 words + <unk>.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypedDict

import torch
from torch import Tensor, nn

from recap.models.images import Images, InputSpec
from recap.models.state import Memory
from recap.models.transformer_decoder import MakeMasks, TransformerDecoder, make_masks
from recap.models.transformer_layers import DecoderLayer, EncoderLayer
from recap.nn.attention import Attention, MultiHeadAttention
from recap.nn.fast import Linear
from recap.nn.feed_forward import FeedForward
from recap.nn.masks import key_mask, needed
from recap.nn.positional import grid_table
from recap.nn.residual import NORMS, Residual
from recap.nn.rows import Rows
from recap.nn.stack import Stack

MakeAttention = Callable[[str], Attention]  # builds the attention of a place: encoder, decoder or cross


class TransformerSizes(TypedDict):
    """What a variant of the Transformer hands on as it came; see `Transformer`."""

    d_feed_forward: int
    encoder_layers: int
    decoder_layers: int
    norm: str
    layer_norm: str
    dropout: float
    feature_dropout: float
    visual_positions: str
    feed_forward_activation: str


class Transformer(TransformerDecoder[Memory]):
    """Encoder-decoder Transformer.

    Args:
        inputs: width F of the main stream and number V of ids.
        d_model, heads, d_feed_forward, encoder_layers, decoder_layers: sizes.
        norm: "pre" (then each stack ends with a norm) or "post".
        layer_norm: "biased" (torch) or "unbiased" (Annotated Transformer).
        dropout: residual, embedding and feed-forward dropout.
        feature_dropout: after the feature projection.
        visual_positions: "none", or "grid": fixed row and column codes for vectors that are the cells of a square grid.
        feed_forward_activation: none, relu or gelu.
        make_attention: builds an attention for a place ("encoder", "decoder", "cross").
        make_masks: of the decoder, see `recap.models.transformer_decoder`.
        keep_masks: whether attentions of the encoder get masks that hide nothing, too.
    """

    decoder_layer = DecoderLayer

    def __init__(
        self,
        inputs: InputSpec,
        *,
        d_model: int,
        heads: int,
        d_feed_forward: int,
        encoder_layers: int,
        decoder_layers: int,
        norm: str,
        layer_norm: str,
        dropout: float,
        feature_dropout: float,
        visual_positions: str,
        feed_forward_activation: str,
        make_attention: MakeAttention | None = None,
        make_masks: MakeMasks = make_masks,
        keep_masks: bool = False,
    ) -> None:
        super().__init__(make_masks)
        make = make_attention or (lambda place: MultiHeadAttention(d_model=d_model, heads=heads))

        def residual() -> Residual:
            return Residual(d_model=d_model, norm=norm, norm_kind=layer_norm, dropout=dropout)

        def feed_forward() -> FeedForward:
            return FeedForward(
                d_model=d_model, d_hidden=d_feed_forward, activation=feed_forward_activation, dropout=dropout
            )

        def final_norm() -> nn.Module:
            return NORMS[layer_norm](d_model) if norm == "pre" else nn.Identity()

        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_dropout = nn.Dropout(feature_dropout)
        self.visual_positions, self.keep_masks = visual_positions, keep_masks
        self.encoder = Stack[EncoderLayer](
            EncoderLayer(attention=make("encoder"), feed_forward=feed_forward(), residual=residual)
            for _ in range(encoder_layers)
        )
        self.encoder_norm = final_norm()
        self.build_decoder(
            vocabulary_size=inputs.vocabulary_size,
            d_model=d_model,
            dropout=dropout,
            layers=(
                self.decoder_layer(
                    attention=make("decoder"), cross=make("cross"), feed_forward=feed_forward(), residual=residual
                )
                for _ in range(decoder_layers)
            ),
            norm=final_norm(),
        )

    def encode(self, images: Images) -> Memory:
        """Images -> Memory; vectors that the mask hides change nothing."""
        x, mask = self.embed_image(images)
        x = self.feature_dropout(x)[:, None]  # [B, 1, N, D]
        token_mask, attn_mask = (
            given if self.keep_masks else needed(given) for given in (mask[:, None], key_mask(mask))
        )
        rows = Rows(x, token_mask=token_mask)
        for layer in self.encoder:
            rows = self.run_layer(layer, rows, attn_mask)
        return Memory(self.encoder_norm(rows.values)[:, 0], mask)

    def embed_image(self, images: Images) -> tuple[Tensor, Tensor]:
        """Return what the encoder reads, [B, N, D], and its mask [B, N]."""
        x = torch.relu(self.feature_embedding(images.main.values))
        if self.visual_positions == "grid":
            x = x + _grid_positions(x)
        return x, images.main.mask


def _grid_positions(x: Tensor) -> Tensor:
    """Return the codes [N, D] of the cells that x [B, N, D] holds."""
    side = math.isqrt(x.shape[1])
    if side * side != x.shape[1]:
        raise ValueError(f"grid positions need the cells of a square grid, but an image has {x.shape[1]} vectors")
    return grid_table(side, x.shape[2]).to(x)
