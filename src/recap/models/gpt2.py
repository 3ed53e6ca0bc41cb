"""GPT-2 (Radford et al. 2019) as a decoder of captions and as a language model.

Pre-norm blocks, learned positions, GELU in its tanh form, layer norms with eps 1e-5, output tied to
the word table:

    a = x + attention(norm_1(x));  x' = a + feed_forward(norm_2(a));  logits = W_e norm(x_L)

Expected: 124.4 M parameters at width 768 with 12 layers, 1,024 positions and 50,257 pieces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from recap.models.transformer import LayerCache, attend_to_past, check_length
from recap.nn.attention import MultiHeadAttention
from recap.nn.fast import product
from recap.nn.layers import Dropout, FeedForward, Stack
from recap.nn.rows import PackedIndex, Rows, causal_mask

DEVIATION = 0.02  # of GPT-2's random weights


class Gpt2Block(nn.Module):
    """One block: rows of [B, C, T, D] -> rows of [B, C, T, D].

    Dropout is on the sum of each residual connection.
    """

    def __init__(
        self,
        *,
        d_model: int,
        heads: int,
        d_feed_forward: int,
        dropout: float,
        feed_forward: bool = True,
    ) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model=d_model, heads=heads)
        self.dropout = Dropout(dropout)
        self.feed_forward: FeedForward | None = None
        if feed_forward:
            self.feed_forward_norm = nn.LayerNorm(d_model)
            self.feed_forward = FeedForward(
                d_model=d_model, d_hidden=d_feed_forward, activation="gelu_tanh", dropout=0.0
            )

    def forward(self, x: Rows, self_mask: Tensor | None, past: LayerCache | None = None) -> Rows:
        """Apply the block; masks and `past` as of `recap.models.transformer.DecoderLayer`."""
        return self.after(self.attend(x, self_mask, past))

    def attend(self, x: Rows, self_mask: Tensor | None, past: LayerCache | None) -> Rows:
        """Self-attention over the tokens so far, with its residual connection."""
        attended = attend_to_past(self.attention, x.map(self.attention_norm), self_mask, past)
        return x.like(self.dropout(x.values + attended.values))

    def after(self, x: Rows) -> Rows:
        """Feed-forward, with its residual connection."""
        if self.feed_forward is None:
            return x.map(self.dropout)
        return x.like(self.dropout(x.values + self.feed_forward(self.feed_forward_norm(x.values))))


BlockT = TypeVar("BlockT", bound=Gpt2Block)


class Gpt2Decoder(nn.Module, Generic[BlockT]):
    """Words, positions (the most tokens of a caption), blocks, last norm and tied output."""

    def __init__(
        self, *, vocabulary_size: int, d_model: int, positions: int, blocks: Sequence[BlockT]
    ) -> None:
        super().__init__()
        self.word_embedding = nn.Embedding(vocabulary_size, d_model)
        self.position_embedding = nn.Embedding(positions, d_model)
        self.blocks = Stack[BlockT](blocks)
        self.norm = nn.LayerNorm(d_model)

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Token ids [...] and their positions, broadcastable to [...] -> [..., D]."""
        return self.word_embedding(tokens) + self.position_embedding(positions.expand_as(tokens))

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V], with the word table."""
        return product(hidden, self.word_embedding.weight, None)


class LanguageModel(nn.Module):
    """GPT-2 without pictures: next tokens of texts."""

    def __init__(
        self, *, vocabulary_size: int, d_model: int, layers: int, positions: int, **sizes: Any
    ) -> None:
        super().__init__()
        blocks = [Gpt2Block(d_model=d_model, **sizes) for _ in range(layers)]
        self.decoder = Gpt2Decoder[Gpt2Block](
            vocabulary_size=vocabulary_size, d_model=d_model, positions=positions, blocks=blocks
        )
        initialize(self.decoder)

    def forward(self, tokens: Tensor, index: PackedIndex | None = None) -> Tensor:
        """Tokens [B, T] -> hidden of each, [B, T, D].

        With an index those of the R real tokens, [R, D].
        """
        length = tokens.shape[-1]
        check_length(length, self.decoder.position_embedding.num_embeddings)
        positions = torch.arange(length, device=tokens.device)
        words = tokens[:, None]
        if index is not None:
            positions = index.positions
            words = index.pack(words)
        x = Rows(self.decoder.embed(words, positions), index)
        mask = causal_mask(length, tokens.device)
        for block in self.decoder.blocks:
            x = block(x, mask)
        hidden = self.decoder.norm(x.values)
        return hidden if index is not None else hidden[:, 0]

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        return self.decoder.logits(hidden)


def initialize(decoder: Gpt2Decoder[BlockT]) -> None:
    """Draw GPT-2's random weights: N(0, 0.02), biases 0, residual ends / sqrt(2 layers)."""
    for module in decoder.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=DEVIATION)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    for block in decoder.blocks:
        ends = [block.attention.output]
        if block.feed_forward is not None:
            ends.append(block.feed_forward.outer)
        for end in ends:
            nn.init.normal_(end.weight, std=DEVIATION / math.sqrt(2 * len(decoder.blocks)))
