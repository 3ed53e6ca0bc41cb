"""M2, the Meshed-Memory Transformer:
memory slots in the encoder, a decoder that reads every encoder layer.

Paper: Cornia et al. 2020, "Meshed-Memory Transformer for Image Captioning"; code:
aimagelab/meshed-memory-transformer, not opened here. As the released code has it, where that is
more than the paper says:
  - features -> linear, ReLU, dropout, norm; words without a scale; no bias in the output layer,
    which is not tied;
  - each level's attention has its residual connection and norm before the gate, the sum is divided
    by sqrt(levels), and no norm follows;
  - Xavier initialization of all matrices, zero biases in attentions and gates.
Where paper and release disagree, the paper by default, the release by option
(params/m2/models/m2_as_released.yaml):
  - `positions: noise`: the release's sinusoids are overwritten by its initialization, and stay
    noise;
  - `memory_init: xavier`: so are the memory slots, which are meant to be normal;
  - `padded_vectors: attended`: its mask of padding hides nothing, so that an image's padding takes
    part.
Departs: its mask also hides, in float32, a few real vectors whose sum happens to be 0; nothing here
does.
Expected: 38.4 M parameters with 2048-d features and 10,201 ids.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from recap.models.images import Images, InputSpec
from recap.models.state import LevelMemory, first_vectors
from recap.models.transformer import (
    DecoderLayer,
    EncoderLayer,
    TransformerDecoder,
    post_norm_parts,
)
from recap.nn.attention import KeyValue, MultiHeadAttention
from recap.nn.fast import Linear
from recap.nn.layers import Dropout, Stack, sinusoid_table
from recap.nn.rows import Rows, key_mask, none_if_all_true
from recap.papers.m2.settings import M2Model


class MemoryAttention(MultiHeadAttention):
    """Multi-head attention over N vectors and m memory slots:
    learned keys and values, which no mask hides.

    K = [W_k X ; sqrt(d_k) M_k],   V = [W_v X ; sqrt(m) M_v]

    The scales are the released code's; M_k begins normal with standard deviation 1 / d_k, M_v with
    1 / m.
    """

    def __init__(self, *, slots: int, **sizes: Any) -> None:
        super().__init__(**sizes)
        self.slots = slots
        keys, values = self.key.out_features, self.value.out_features  # H * d_key, H * d_value
        self.memory_key = nn.Parameter(torch.randn(1, slots, keys) / (keys // self.heads))
        self.memory_value = nn.Parameter(torch.randn(1, slots, values) / slots)

    def key_value(self, source: Rows) -> KeyValue:
        """Rows of [B, C or 1, N, D] -> keys and values
        of these and of the slots, [B, C or 1, H, N + m, K]."""

        def extended(x: Tensor, memory: Tensor) -> Tensor:
            slots = Rows(memory[None]).split_heads(self.heads).to(x.dtype)  # [1, 1, H, m, K]
            return torch.cat([x, slots.expand(*x.shape[:2], -1, -1, -1)], 3)

        key, value = super().key_value(source)
        key_memory = self.memory_key * math.sqrt(key.shape[-1])
        value_memory = self.memory_value * math.sqrt(self.slots)
        return extended(key, key_memory), extended(value, value_memory)

    def attend(
        self,
        q: Tensor,
        key_value: KeyValue,
        attn_mask: Tensor | None,
        attn_bias: Tensor | None = None,
    ) -> Tensor:
        """As `MultiHeadAttention.attend`; the mask is of the N vectors without the slots."""
        mask = None if attn_mask is None else pad(attn_mask, (0, self.slots), value=True)
        return super().attend(q, key_value, mask, attn_bias)


class MeshedGate(nn.Module):
    """sum_k sigmoid(W_k [s ; e_k] + b_k) * e_k / sqrt(levels), a gate per level k."""

    def __init__(self, *, d_model: int, levels: int) -> None:
        super().__init__()
        self.gates = Stack[Linear](Linear(2 * d_model, d_model) for _ in range(levels))

    def forward(self, state: Tensor, attended: Sequence[Tensor]) -> Tensor:
        """State s [..., D] and what each level gave for it, e_k [..., D] -> [..., D]."""
        gated = [
            gate(torch.cat([state, e], -1)).sigmoid() * e
            for gate, e in zip(self.gates, attended, strict=True)
        ]
        return torch.stack(gated).sum(0) / math.sqrt(len(gated))


class MeshedDecoderLayer(DecoderLayer):
    """Causal self-attention, gated cross-attention over all encoder levels, feed-forward.

    With s the tokens after self-attention and its norm, one cross-attention and one norm for all
    levels X_k:

        e_k = norm(s + dropout(attention(s, X_k)))
        out = feed_forward(sum_k gate_k(s, e_k) * e_k / sqrt(levels))

    There is no other residual connection around the cross-attention.
    """

    cross: MultiHeadAttention

    def __init__(self, *, mesh: MeshedGate, **parts: Any) -> None:  # the parts of a `DecoderLayer`
        super().__init__(**parts)
        self.mesh = mesh

    def image(self, memory: LevelMemory) -> KeyValue:  # type: ignore[override]
        """Return keys and values of all levels, [B, levels, H, N, K]."""
        return self.cross.key_value(Rows(memory.levels))

    def after_words(self, x: Rows, image: Any, cross_mask: Any) -> Rows:
        """As `DecoderLayer.after_words`; x is s."""
        levels = self.around_cross(
            x.values, lambda y: self.cross.each_level(x.like(y), image, attn_mask=cross_mask)
        )
        meshed = self.mesh(x.values, levels.unbind())
        return x.like(self.around_feed_forward(meshed, self.feed_forward))


class M2(TransformerDecoder[LevelMemory]):
    """The Meshed-Memory Transformer."""

    def __init__(self, inputs: InputSpec, settings: M2Model) -> None:
        super().__init__()
        d_model, heads, dropout = settings.d_model, settings.heads, settings.dropout
        residual, feed_forward = post_norm_parts(
            d_model=d_model, d_feed_forward=settings.d_feed_forward, dropout=dropout
        )
        self.max_vectors, self.padded_to = settings.max_vectors, settings.padded_to
        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_dropout = Dropout(dropout)
        self.feature_norm = nn.LayerNorm(d_model)
        self.encoder = Stack[EncoderLayer](
            EncoderLayer(
                attention=MemoryAttention(
                    d_model=d_model, heads=heads, slots=settings.memory_slots
                ),
                feed_forward=feed_forward(),
                residual=residual,
            )
            for _ in range(settings.encoder_layers)
        )
        self.word_embedding = nn.Embedding(inputs.vocabulary_size, d_model)
        # Row 0 of the released table is of padding, so that <bos> is at position 1.
        table = sinusoid_table(settings.max_tokens + 1, d_model)
        if settings.positions == "noise":
            nn.init.xavier_uniform_(table)
        self.register_buffer(
            "positions", table[1:].clone(), persistent=settings.positions == "noise"
        )
        self.decoder = Stack[MeshedDecoderLayer](
            MeshedDecoderLayer(
                attention=MultiHeadAttention(d_model=d_model, heads=heads),
                cross=MultiHeadAttention(d_model=d_model, heads=heads),
                mesh=MeshedGate(d_model=d_model, levels=settings.encoder_layers),
                feed_forward=feed_forward(),
                residual=residual,
            )
            for _ in range(settings.decoder_layers)
        )
        self.decoder_norm = nn.Identity()
        self.output = Linear(d_model, inputs.vocabulary_size, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                if settings.memory_init == "xavier" or "memory_" not in name:
                    nn.init.xavier_uniform_(parameter)
            elif {"attention", "cross", "mesh"} & {*name.split(".")}:
                # their biases; what these modules hold has no other vectors
                nn.init.zeros_(parameter)

    def encode(self, images: Images) -> LevelMemory:
        """Images -> what every encoder layer gives; vectors that the mask hides change nothing."""
        values, mask = first_vectors(images.main, self.max_vectors, self.padded_to)
        x = self.feature_norm(self.feature_dropout(torch.relu(self.feature_embedding(values))))
        return self.encode_levels(self.encoder, x, mask, none_if_all_true(key_mask(mask)))

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Token ids [...] and their positions -> [..., D]."""
        embedded = self.word_embedding(tokens)
        return embedded + self.positions[positions].to(embedded.dtype)
