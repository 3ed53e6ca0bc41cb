"""Encoder-decoder Transformer for captioning: the baseline of four of the five papers.

Paper: Vaswani et al. 2017, "Attention Is All You Need", on image features as in Sharma et al. 2018.
Realized as the papers' code bases have it (Annotated Transformer lineage): features -> linear,
ReLU, dropout 0.5, no positions on the visual side; word embedding times sqrt(D) plus sinusoids;
untied output layer; Xavier initialization.
Departs: norms use the biased variance (`layer_norm: unbiased` gives the code's form); 6+6 pre-norm
layers by default, 3 and post-norm by option; with biases everywhere.
Expected: 54.9 M parameters with 2048-d features, D 512, 6+6 layers and COCO's 9,487 words + <unk>.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from recap.models.images import Images, InputSpec, square_side
from recap.models.state import Memory
from recap.models.transformer import DecoderLayer, EncoderLayer, TransformerDecoder
from recap.nn.attention import Attention, MultiHeadAttention
from recap.nn.fast import Linear
from recap.nn.layers import NORMS, Dropout, FeedForward, Residual, Stack, grid_table
from recap.nn.rows import Rows, constant, key_mask, none_if_all_true
from recap.papers.transformer.settings import TransformerSizes
from recap.runs.released import SINUSOID, Options, Release, agree, layers, rename_annotated

# builds the attention of a place: encoder, decoder or cross
MakeAttention = Callable[[str], Attention]
# builds a layer from its parts: those of `EncoderLayer` or `DecoderLayer`
MakeLayer = Callable[..., nn.Module]


@constant
def grid_positions(side: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return `grid_table` where it is needed, made once and not in every step."""
    return grid_table(torch.arange(side, dtype=torch.float64), width).to(device, dtype)


class Transformer(TransformerDecoder[Memory]):
    """Encoder-decoder Transformer; other papers give it attentions, masks and layers of their own.

    `make_attention` builds the attention of a place, `make_encoder_layer` and `make_decoder_layer`
    one layer each.
    """

    keep_masks = False  #: whether the encoder gets masks that hide nothing, too

    def __init__(
        self,
        inputs: InputSpec,
        settings: TransformerSizes,
        *,
        make_attention: MakeAttention | None = None,
        make_encoder_layer: MakeLayer = EncoderLayer,
        make_decoder_layer: MakeLayer = DecoderLayer,
    ) -> None:
        super().__init__()
        d_model, dropout = settings.d_model, settings.dropout
        make = make_attention or (
            lambda place: MultiHeadAttention(d_model=d_model, heads=settings.heads)
        )
        residual = partial(
            Residual,
            d_model=d_model,
            norm=settings.norm,
            norm_kind=settings.layer_norm,
            dropout=dropout,
        )
        feed_forward = partial(
            FeedForward,
            d_model=d_model,
            d_hidden=settings.d_feed_forward,
            activation=settings.feed_forward_activation,
            dropout=dropout,
        )
        final_norm: Callable[..., nn.Module] = (
            NORMS[settings.layer_norm] if settings.norm == "pre" else nn.Identity
        )
        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_dropout = Dropout(settings.feature_dropout)
        self.visual_positions = settings.visual_positions
        self.encoder = Stack[Any](
            make_encoder_layer(
                attention=make("encoder"), feed_forward=feed_forward(), residual=residual
            )
            for _ in range(settings.encoder_layers)
        )
        self.encoder_norm = final_norm(d_model)
        self.build_decoder(
            vocabulary_size=inputs.vocabulary_size,
            d_model=d_model,
            dropout=dropout,
            layers=(
                make_decoder_layer(
                    attention=make("decoder"),
                    cross=make("cross"),
                    feed_forward=feed_forward(),
                    residual=residual,
                )
                for _ in range(settings.decoder_layers)
            ),
            norm=final_norm(d_model),
        )

    def encode(self, images: Images) -> Memory:
        """Images -> Memory; vectors that the mask hides change nothing."""
        x, mask = self.embed_image(images)
        x = self.feature_dropout(x)[:, None]  # [B, 1, N, D]
        token_mask: Tensor | None = mask[:, None]
        attn_mask: Tensor | None = key_mask(mask)
        if not self.keep_masks:
            token_mask = none_if_all_true(mask[:, None])
            attn_mask = none_if_all_true(key_mask(mask))
        rows = self.run_encoder(Rows(x, token_mask=token_mask), attn_mask)
        return Memory(self.encoder_norm(rows.values)[:, 0], mask)

    def run_encoder(self, x: Rows, attn_mask: Tensor | None) -> Rows:
        """Apply the encoder's layers: rows of [B, 1, N, D] -> the same."""
        for layer in self.encoder:
            x = self.run_layer(layer, x, attn_mask)
        return x

    def embed_image(self, images: Images) -> tuple[Tensor, Tensor]:
        """Return what the encoder reads, [B, N, D], and its mask [B, N]."""
        x = torch.relu(self.feature_embedding(images.main.values))
        if self.visual_positions == "grid":
            side = square_side(x.shape[1])
            x = x + grid_positions(side, x.shape[2], x.dtype, x.device)
        return x, images.main.mask


# Released checkpoints: ruotianluo/ImageCaptioning.pytorch's Transformer, also ZoDIAC's baseline

# For `layer_norm: unbiased` (docs/reference/parameters.md).
rename_official = partial(rename_annotated, projections=("query", "key", "value", "output"))


def annotated_settings(tensors: Mapping[str, Tensor], options: Options) -> dict[str, Any]:
    """Return an annotated Transformer's settings: sizes from shapes, heads from `infos`."""
    inner = tensors["encoder.0.feed_forward.inner.weight"]
    sizes = {"d_model": inner.shape[1], "d_feed_forward": inner.shape[0]}
    depths = {
        "encoder_layers": layers(tensors, "encoder"),
        "decoder_layers": layers(tensors, "decoder"),
    }
    agree(
        options, {"N_enc": depths["encoder_layers"], "N_dec": depths["decoder_layers"], "use_bn": 0}
    )
    return {**sizes, **depths, "heads": options.get("num_att_heads", 8), "layer_norm": "unbiased"}


def released_settings(tensors: Mapping[str, Tensor], options: Options) -> dict[str, Any]:
    """Return the settings of the Transformer that tensors belong to."""
    agree(options, {"caption_model": "transformer"})
    return {"kind": "transformer", **annotated_settings(tensors, options)}


RELEASE = Release(
    rename=rename_official,
    settings=released_settings,
    decoding={"beam": 5, "max_length": 20, "finished": "set_aside"},
    unused=SINUSOID,
)
