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

from collections.abc import Callable

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


class VisualGpt(TransformerDecoder[LevelMemory]):
    """VisualGPT, its baselines and ablations.

    Args:
        inputs: width F of the main stream, number V of ids, vocabulary and file of pretrained weights.
        d_model, heads, d_feed_forward, decoder_layers, positions: GPT-2's sizes.
        encoder_layers, d_encoder_feed_forward, memory_slots: sizes of the image encoder.
        encoder: "plain", "memory" (M2's slots), or "aoa_baseline".
        fusion: "srau", "plain", "meshed", "aoa", or "aoa_baseline"; see `recap.papers.visualgpt.layers`.
        gate, tau, gate_activation, normalized: of fusion srau; see `recap.papers.visualgpt.srau`.
        max_vectors: only so many vectors of an image are read; None: all.
        padded_vectors: masked, or attended: images are filled up to `max_vectors` with zeros that no mask hides.
        initialization: of the decoder: "gpt2", or "xavier" for every matrix.
        copy_layers: all blocks begin with the cross-attention and gates of the first, as in the code; with random
            weights, with all of the first block.
        pretrained: whether the decoder is to begin with pretrained weights; weights: what the settings call them. They
            are in the file `inputs.weights`, which is None where a trained model is loaded.
        dropout: in encoder and decoder blocks; feature_dropout: on embedded vectors; cross_dropout: on the weights of
            the cross-attention; aoa_dropout: in attention on attention.
    """

    decoder: Gpt2Decoder[VisualBlock]

    def __init__(
        self,
        inputs: InputSpec,
        *,
        d_model: int,
        heads: int,
        d_feed_forward: int,
        decoder_layers: int,
        positions: int,
        encoder_layers: int,
        d_encoder_feed_forward: int,
        memory_slots: int,
        encoder: str,
        fusion: str,
        gate: str,
        tau: float,
        gate_activation: str,
        normalized: bool,
        max_vectors: int | None,
        padded_vectors: str,
        initialization: str,
        copy_layers: bool,
        pretrained: bool,
        weights: str,
        dropout: float,
        feature_dropout: float,
        cross_dropout: float,
        aoa_dropout: float,
    ) -> None:
        super().__init__(masks)
        fusions: dict[str, Callable[[], Fusion]] = {
            "srau": lambda: Srau(
                d_model=d_model,
                levels=encoder_layers,
                gate=gate,
                tau=tau,
                activation=gate_activation,
                normalized=normalized,
            ),
            "plain": Plain,
            "meshed": lambda: Meshed(d_model=d_model, levels=encoder_layers),
            "aoa": lambda: AttendedAgain(d_model=d_model, dropout=aoa_dropout),
            "aoa_baseline": lambda: AoaBaseline(d_model=d_model, dropout=aoa_dropout),
        }
        self.max_vectors = max_vectors
        self.padded_to = max_vectors if padded_vectors == "attended" else None
        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_dropout = Dropout(feature_dropout)
        self.feature_norm = nn.LayerNorm(d_model)
        self.encoder = nn.ModuleList(
            encoder_layer(
                encoder,
                d_model=d_model,
                heads=heads,
                d_feed_forward=d_encoder_feed_forward,
                memory_slots=memory_slots,
                dropout=dropout,
                aoa_dropout=aoa_dropout,
            )
            for _ in range(encoder_layers)
        )
        self.decoder = Gpt2Decoder[VisualBlock](
            vocabulary_size=inputs.vocabulary_size,
            d_model=d_model,
            positions=positions,
            blocks=[
                VisualBlock(
                    fusion=fusions[fusion](),
                    cross_dropout=cross_dropout,
                    d_model=d_model,
                    heads=heads,
                    d_feed_forward=d_feed_forward,
                    dropout=dropout,
                )
                for _ in range(decoder_layers)
            ],
        )
        self._initialize(initialization, copy_layers)
        if pretrained and inputs.weights is not None:
            load_pretrained(self.decoder, inputs.weights, inputs.vocabulary, source=weights)

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


def masks(x: Rows, memory: LevelMemory, cache: KeyValueCache | None) -> tuple[Tensor, Tensor]:
    """Return the masks of the tokens and of the image; see `recap.models.transformer_decoder.MakeMasks`."""
    return own_mask(x, cache), key_mask(memory.mask)
