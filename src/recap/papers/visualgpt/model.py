"""VisualGPT: a pretrained GPT-2 that describes images, with gates that balance language against vision.

Paper: Chen et al. 2022, "VisualGPT: Data-efficient Adaptation of Pretrained Language Models for Image Captioning".
Code: Vision-CAIR/VisualGPT (not opened here), whose form is the default: learnt gates for each encoder level, summed
(`srau`); regions -> linear, GELU (tanh), dropout, norm; three post-norm encoder layers with ReLU, all of
whose outputs are attended to; one norm of a GPT-2 block before self-attention, on the query and on the encoder's
outputs; dropout on the residual stream itself; no boxes. `fusion` and `encoder` give its baselines and ablations, too.
Departs: padded regions are hidden (`padded_vectors: attended` is the code's form, whose mask hides nothing); padded
tokens are not set to zero, which no real token sees; matrices that the code never uses are left out.
Expected: 195.3 M parameters in the decoder of the paper's size, 42.5 M of them gates (code: 216.5 M, 21.3 M unused).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad

from recap.models.cache import KeyValueCache
from recap.models.gpt2 import DEVIATION, Gpt2Decoder, initialize
from recap.models.gpt2_weights import load_pretrained
from recap.models.images import Images, InputSpec
from recap.models.level_memory import LevelMemory
from recap.models.transformer_decoder import TransformerDecoder, own_mask
from recap.nn.fast import Dropout, Linear
from recap.nn.masks import key_mask
from recap.nn.rows import Rows
from recap.nn.stack import Stack
from recap.papers.visualgpt.layers import (
    AoaBaseline,
    AttendedAgain,
    Fusion,
    Meshed,
    Plain,
    Srau,
    VisualBlock,
    encoder_layer,
)
from recap.papers.visualgpt.settings import VisualGptModel


class VisualGpt(TransformerDecoder[LevelMemory]):
    """VisualGPT, its baselines and ablations.

    Args:
        feature_embedding: linear, of the vectors: F -> D.
        feature_dropout: on embedded vectors.
        encoder: layers, all of whose outputs the blocks may attend to.
        decoder: GPT-2, with attention to these between the parts of its blocks.
        max_vectors: only so many vectors of an image are read; None: all.
        padded_to: images are filled up to so many vectors with zeros that no mask hides; None: they are not.
    """

    decoder: Gpt2Decoder[VisualBlock]

    def __init__(
        self,
        *,
        feature_embedding: Linear,
        feature_dropout: float,
        encoder: Iterable[nn.Module],
        decoder: Gpt2Decoder[VisualBlock],
        max_vectors: int | None,
        padded_to: int | None,
    ) -> None:
        super().__init__(masks)
        self.max_vectors, self.padded_to = max_vectors, padded_to
        self.feature_embedding = feature_embedding
        self.feature_dropout = Dropout(feature_dropout)
        self.feature_norm = nn.LayerNorm(feature_embedding.out_features)
        self.encoder = nn.ModuleList(encoder)
        self.decoder = decoder

    @classmethod
    def build(cls, inputs: InputSpec, settings: VisualGptModel) -> Self:
        """Build the model of the settings; the decoder begins with `inputs.weights`, where they name pretrained ones.

        `inputs.weights` is None where a trained model is loaded.
        """
        model = cls(
            feature_embedding=Linear(inputs.feature_size, settings.d_model),
            feature_dropout=settings.feature_dropout,
            encoder=[_encoder_layer(settings) for _ in range(settings.encoder_layers)],
            decoder=Gpt2Decoder[VisualBlock](
                vocabulary_size=inputs.vocabulary_size,
                d_model=settings.d_model,
                positions=settings.positions,
                blocks=[_block(settings) for _ in range(settings.decoder_layers)],
            ),
            max_vectors=settings.max_vectors,
            padded_to=settings.max_vectors if settings.padded_vectors == "attended" else None,
        )
        model._initialize(settings.initialization, settings.copy_layers)
        if settings.pretrained and inputs.weights is not None:
            load_pretrained(model.decoder, inputs.weights, inputs.vocabulary, source=settings.weights)
        return model

    def _initialize(self, initialization: str, copy_layers: bool) -> None:
        """Draw the random weights; what pretrained weights do not bring keeps them."""
        encoder = [*self.feature_embedding.parameters(), *self.encoder.parameters()]
        for parameter in encoder:
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        blocks: Stack[VisualBlock] = self.decoder.blocks
        if initialization == "xavier":
            for parameter in self.decoder.parameters():
                if parameter.dim() > 1:
                    nn.init.xavier_uniform_(parameter)
        else:
            gates = [block.fusion.state_dict() for block in blocks]
            gates = [{name: value.clone() for name, value in gate.items()} for gate in gates]
            initialize(self.decoder)
            for block, gate in zip(blocks, gates, strict=True):
                block.fusion.load_state_dict(gate)  # torch's own initialization stays
                for linear in (block.cross.query, block.cross.key, block.cross.value):
                    nn.init.xavier_uniform_(linear.weight)
                nn.init.normal_(block.cross.output.weight, std=DEVIATION)
        if copy_layers:
            for block in list(blocks)[1:]:
                block.load_state_dict(blocks[0].state_dict())

    def encode(self, images: Images) -> LevelMemory:
        """Images -> outputs of all encoder layers; vectors that the mask hides change nothing."""
        values, mask = (x[:, : self.max_vectors] for x in (images.main.values, images.main.mask))
        if self.padded_to is not None:
            values = pad(values.masked_fill(~mask[..., None], 0), (0, 0, 0, self.padded_to - mask.shape[1]))
            mask = torch.ones(values.shape[:2], dtype=torch.bool, device=mask.device)
        x = gelu(self.feature_embedding(values), approximate="tanh")
        rows = Rows(self.feature_norm(self.feature_dropout(x))[:, None])  # [B, 1, N, D]
        attn_mask, levels = key_mask(mask), []
        for layer in self.encoder:
            rows = self.run_layer(layer, rows, attn_mask)
            levels.append(rows.values)
        return LevelMemory(rows.values[:, 0], mask, torch.cat(levels, 1))

    @property
    def layers(self) -> Stack[VisualBlock]:
        """GPT-2's blocks."""
        return self.decoder.blocks

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Token ids [...] and their positions -> [..., D]."""
        return self.decoder.embed(tokens, positions)

    def check_length(self, tokens: int) -> None:
        """Refuse captions that are longer than the table of positions."""
        self.decoder.check_length(tokens)

    def norm(self, x: Tensor) -> Tensor:
        """Output of the last block [..., D] -> hidden [..., D]."""
        return self.decoder.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V], with the word table."""
        return self.decoder.logits(hidden)

    def attention_modules(self) -> list[nn.Identity]:
        """Return where the cross-attentions pass their weights; see `recap.models.attention_maps`."""
        return [block.cross.weights for block in self.decoder.blocks]


def _encoder_layer(settings: VisualGptModel) -> nn.Module:
    return encoder_layer(
        settings.encoder,
        d_model=settings.d_model,
        heads=settings.heads,
        d_feed_forward=settings.d_encoder_feed_forward,
        memory_slots=settings.memory_slots,
        dropout=settings.dropout,
        aoa_dropout=settings.aoa_dropout,
    )


def _block(settings: VisualGptModel) -> VisualBlock:
    return VisualBlock(
        fusion=_fusion(settings),
        cross_dropout=settings.cross_dropout,
        d_model=settings.d_model,
        heads=settings.heads,
        d_feed_forward=settings.d_feed_forward,
        dropout=settings.dropout,
    )


def _fusion(settings: VisualGptModel) -> Fusion:
    """Return what joins the state of a block with what it found in the image."""
    d_model, levels = settings.d_model, settings.encoder_layers
    if settings.fusion == "plain":
        return Plain()
    if settings.fusion == "meshed":
        return Meshed(d_model=d_model, levels=levels)
    if settings.fusion == "aoa":
        return AttendedAgain(d_model=d_model, dropout=settings.aoa_dropout)
    if settings.fusion == "aoa_baseline":
        return AoaBaseline(d_model=d_model, dropout=settings.aoa_dropout)
    return Srau(
        d_model=d_model,
        levels=levels,
        gate=settings.gate,
        tau=settings.tau,
        activation=settings.gate_activation,
        normalized=settings.normalized,
    )


def masks(x: Rows, memory: LevelMemory, cache: KeyValueCache | None) -> tuple[Tensor, Tensor]:
    """Return the masks of the tokens and of the image; see `recap.models.transformer_decoder.MakeMasks`."""
    return own_mask(x, cache), key_mask(memory.mask)
