"""VisualGPT: a pretrained GPT-2 that describes images, with gates that balance language against vision.

Paper: Chen et al. 2022, "VisualGPT: Data-efficient Adaptation of Pretrained Language Models for Image Captioning".
Code: Vision-CAIR/VisualGPT (not opened here), whose form is the default: learned gates for each encoder level, summed
(`srau`); regions -> linear, GELU (tanh), dropout, norm; three post-norm encoder layers with ReLU, all of
whose outputs are attended to; one norm of a GPT-2 block before self-attention, on the query and on the encoder's
outputs; dropout on the residual stream itself; no boxes. `fusion` and `encoder` give its baselines and ablations, too.
Departs: padded regions are hidden (`padded_vectors: attended` is the code's form, whose mask hides nothing); padded
tokens are not set to zero, which no real token sees; matrices that the code never uses are left out.
Expected: 195.3 M parameters in the decoder of the paper's size, 42.5 M of them gates (code: 216.5 M, 21.3 M unused).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from recap.models.cache import KeyValueCache
from recap.models.gpt2 import DEVIATION, Gpt2Decoder, initialize
from recap.models.gpt2_weights import load_pretrained
from recap.models.images import Images, InputSpec
from recap.models.state import LevelMemory, first_vectors
from recap.models.transformer import TransformerDecoder, own_mask
from recap.nn.fast import Dropout, Linear
from recap.nn.layers import Stack
from recap.nn.masks import key_mask
from recap.nn.rows import Rows
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

    The decoder begins with `inputs.weights`, where the settings name pretrained ones; they are None where a trained
    model is loaded.
    """

    decoder: Gpt2Decoder[VisualBlock]

    def __init__(self, inputs: InputSpec, settings: VisualGptModel) -> None:
        super().__init__(masks)
        d_model = settings.d_model
        self.max_vectors, self.padded_to = settings.max_vectors, settings.padded_to
        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_dropout = Dropout(settings.feature_dropout)
        self.feature_norm = nn.LayerNorm(d_model)
        self.encoder = nn.ModuleList(
            encoder_layer(
                settings.encoder,
                d_model=d_model,
                heads=settings.heads,
                d_feed_forward=settings.d_encoder_feed_forward,
                memory_slots=settings.memory_slots,
                dropout=settings.dropout,
                aoa_dropout=settings.aoa_dropout,
            )
            for _ in range(settings.encoder_layers)
        )
        blocks = [
            VisualBlock(
                fusion=_fusion(settings),
                cross_dropout=settings.cross_dropout,
                d_model=d_model,
                heads=settings.heads,
                d_feed_forward=settings.d_feed_forward,
                dropout=settings.dropout,
            )
            for _ in range(settings.decoder_layers)
        ]
        self.decoder = Gpt2Decoder[VisualBlock](
            vocabulary_size=inputs.vocabulary_size, d_model=d_model, positions=settings.positions, blocks=blocks
        )
        self._initialize(settings.initialization, settings.copy_layers)
        if settings.pretrained and inputs.weights is not None:
            load_pretrained(self.decoder, inputs.weights, inputs.vocabulary, source=settings.weights)

    def _initialize(self, initialization: str, copy_layers: bool) -> None:
        """Draw the random weights; what pretrained weights do not bring keeps them."""
        blocks: Stack[VisualBlock] = self.decoder.blocks
        drawn = [self.feature_embedding, self.encoder, *([self.decoder] if initialization == "xavier" else [])]
        for parameter in (parameter for module in drawn for parameter in module.parameters()):
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        if initialization != "xavier":
            gates = [{name: value.clone() for name, value in block.fusion.state_dict().items()} for block in blocks]
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
        values, mask = first_vectors(images.main, self.max_vectors, self.padded_to)
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
        """Return where the cross-attentions pass their weights; see `recap.models.explained`."""
        return [block.cross.weights for block in self.decoder.blocks]


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
    """Return the masks of the tokens and of the image; see `recap.models.transformer.MakeMasks`."""
    return own_mask(x, cache), key_mask(memory.mask)
