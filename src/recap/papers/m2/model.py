"""M2, the Meshed-Memory Transformer: memory slots in the encoder, a decoder that reads every encoder layer.

Paper: Cornia et al. 2020, "Meshed-Memory Transformer for Image Captioning"; code: aimagelab/meshed-memory-transformer,
not opened here. As the released code has it, where that is more than the paper says:
  - features -> linear, ReLU, dropout, norm; words without a scale; no bias in the output layer, which is not tied;
  - each level's attention has its residual connection and norm before the gate, the sum is divided by sqrt(levels), and
    no norm follows;
  - Xavier initialization of all matrices, zero biases in attentions and gates.
Where paper and release disagree, the paper by default, the release by option (params/m2/models/m2_as_released.yaml):
  - `positions: noise`: the release's sinusoids are overwritten by its initialization, and stay noise;
  - `memory_init: xavier`: so are the memory slots, which are meant to be normal;
  - `padded_vectors: attended`: its mask of padding hides nothing, so that an image's padding takes part.
Departs: its mask also hides, in float32, a few real vectors whose sum happens to be 0; nothing here does.
Expected: 38.4 M parameters with 2048-d features and 10,201 ids.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from recap.models.images import Images, InputSpec
from recap.models.state import LevelMemory, first_vectors
from recap.models.transformer import EncoderLayer, TransformerDecoder
from recap.nn.attention import ProjectedAttention
from recap.nn.fast import Dropout, Linear
from recap.nn.layers import FeedForward, Residual, Stack, sinusoid_table
from recap.nn.masks import key_mask, needed
from recap.nn.rows import Rows
from recap.papers.m2.layers import MemoryAttention, MeshedDecoderLayer, MeshedGate
from recap.papers.m2.settings import M2Model


class M2(TransformerDecoder[LevelMemory]):
    """The Meshed-Memory Transformer."""

    def __init__(self, inputs: InputSpec, settings: M2Model) -> None:
        super().__init__()
        d_model, dropout, width = settings.d_model, settings.dropout, settings.d_model // settings.heads
        sizes = {"d_model": d_model, "heads": settings.heads, "d_key": width, "d_value": width}
        residual = partial(Residual, d_model=d_model, norm="post", norm_kind="biased", dropout=dropout)
        feed_forward = partial(
            FeedForward, d_model=d_model, d_hidden=settings.d_feed_forward, activation="relu", dropout=dropout
        )
        self.max_vectors, self.padded_to = settings.max_vectors, settings.padded_to
        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_dropout = Dropout(dropout)
        self.feature_norm = nn.LayerNorm(d_model)
        self.encoder = Stack[EncoderLayer](
            EncoderLayer(
                attention=MemoryAttention(**sizes, slots=settings.memory_slots),
                feed_forward=feed_forward(),
                residual=residual,
            )
            for _ in range(settings.encoder_layers)
        )
        self.word_embedding = nn.Embedding(inputs.vocabulary_size, d_model)
        # Row 0 of the released table is of padding, so that <bos> is at position 1.
        table = sinusoid_table(settings.max_tokens + 1, d_model, torch.float32)
        if settings.positions == "noise":
            nn.init.xavier_uniform_(table)
        self.register_buffer("positions", table[1:].clone(), persistent=settings.positions == "noise")
        self.decoder = Stack[MeshedDecoderLayer](
            MeshedDecoderLayer(
                attention=ProjectedAttention(**sizes),
                cross=ProjectedAttention(**sizes),
                mesh=MeshedGate(d_model=d_model, levels=settings.encoder_layers),
                feed_forward=feed_forward(),
                residual=residual,
            )
            for _ in range(settings.decoder_layers)
        )
        self.decoder_norm = nn.Identity()
        self.output = Linear(d_model, inputs.vocabulary_size, bias=False)
        self._initialise(settings.memory_init)

    def _initialise(self, memory_init: str) -> None:
        """Draw the initial weights; memory slots are drawn where they are made unless `memory_init` is xavier."""
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                if memory_init == "xavier" or "memory_" not in name:
                    nn.init.xavier_uniform_(parameter)
            elif {"attention", "cross", "mesh"} & {*name.split(".")}:
                nn.init.zeros_(parameter)  # their biases; what these modules hold has no other vectors

    def encode(self, images: Images) -> LevelMemory:
        """Images -> what every encoder layer gives; vectors that the mask hides change nothing."""
        values, mask = first_vectors(images.main, self.max_vectors, self.padded_to)
        x = self.feature_norm(self.feature_dropout(torch.relu(self.feature_embedding(values))))
        rows, attn_mask, levels = Rows(x[:, None]), needed(key_mask(mask)), []
        for layer in self.encoder:
            rows = self.run_layer(layer, rows, attn_mask)
            levels.append(rows.values)
        stacked = torch.cat(levels, 1)
        return LevelMemory(stacked[:, -1], mask, stacked)

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Token ids [...] and their positions -> [..., D]."""
        embedded = self.word_embedding(tokens)
        return embedded + self.positions[positions].to(embedded.dtype)

    def attention_modules(self) -> list[nn.Identity]:
        """Return where each decoder layer passes its weights over each level; see `recap.models.explained`."""
        return [layer.cross.weights for layer in self.decoder]
