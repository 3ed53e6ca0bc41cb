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
from typing import cast

import torch
from torch import Tensor, nn

from recap.layers.attention import Attention, Carry, KeyValue, MultiHeadAttention
from recap.layers.feed_forward import FeedForward
from recap.layers.positional import grid_table, sinusoid_table
from recap.layers.residual import NORMS, Residual
from recap.models.base import Captioner, Memory, State

MakeAttention = Callable[[str], Attention]  # builds the attention of a place: encoder, decoder or cross
LONGEST = 512  # words a caption may have


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward: [B, 1, N, D] -> [B, 1, N, D]."""

    def __init__(self, *, attention: Attention, feed_forward: nn.Module, residual: Callable[[], Residual]) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.around_attention, self.around_feed_forward = residual(), residual()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Apply the layer; `mask` [B, N] is True where a vector is real."""
        x = self.around_attention(x, lambda y: self.attention(y, self.attention.keys(y), mask=mask, real=mask)[0])
        return self.around_feed_forward(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention, feed-forward: [B, C, T, D] -> [B, C, T, D]."""

    def __init__(
        self, *, attention: Attention, cross: Attention, feed_forward: nn.Module, residual: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.attention, self.cross, self.feed_forward = attention, cross, feed_forward
        self.around_attention, self.around_cross, self.around_feed_forward = residual(), residual(), residual()

    def forward(self, x: Tensor, image_keys: KeyValue, mask: Tensor) -> Tensor:
        """Teacher forcing over all words."""
        x = self.around_attention(x, lambda y: self.attention(y, self.attention.keys(y), causal=True)[0])
        x = self.around_cross(x, lambda y: self.cross(y, image_keys, mask=mask)[0])
        return self.around_feed_forward(x, self.feed_forward)

    def start(self, memory: Memory) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the caches before the first word: (per beam, per image)."""
        images = memory.values.shape[0]
        empty = self.attention.keys(memory.values[:, None, :0])  # no words yet: [B, 1, H, 0, K]
        image_keys = self.cross.keys(memory.values[:, None])
        carries = (self.attention.start(images, 1, memory.values), self.cross.start(images, 1, memory.values))
        per_beam = _named("words", empty) | _named("own", carries[0]) | _named("cross", carries[1])
        return per_beam, _named("image", image_keys)

    def step(self, x: Tensor, per_beam: dict[str, Tensor], image_keys: KeyValue, mask: Tensor) -> Tensor:
        """One word, [B, C, 1, D]; the beam's caches in `per_beam` are replaced by those that hold this word."""

        def attend(y: Tensor) -> Tensor:
            past = zip(_values("words", per_beam), self.attention.keys(y), strict=True)
            words = tuple(torch.cat(pair, dim=3) for pair in past)
            out, own = self.attention(y, words, carry=_values("own", per_beam))
            per_beam.update(_named("words", words) | _named("own", own))
            return out

        def look(y: Tensor) -> Tensor:
            out, carry = self.cross(y, image_keys, mask=mask, carry=_values("cross", per_beam))
            per_beam.update(_named("cross", carry))
            return out

        x = self.around_attention(x, attend)
        x = self.around_cross(x, look)
        return self.around_feed_forward(x, self.feed_forward)


def _named(name: str, values: Carry | KeyValue) -> dict[str, Tensor]:
    """Give the tensors of a tuple names: {"words.0": ..., "words.1": ...}."""
    return {f"{name}.{index}": value for index, value in enumerate(values)}


def _values(name: str, tensors: dict[str, Tensor]) -> Carry:
    """Undo `_named`."""
    return tuple(value for key, value in tensors.items() if key.startswith(f"{name}."))


class Transformer(Captioner):
    """Encoder-decoder Transformer.

    Args:
        feature_size: F, width of the visual vectors.
        vocabulary_size: V, number of ids.
        d_model, heads, d_feed_forward, encoder_layers, decoder_layers: sizes.
        norm: "pre" (then each stack ends with a norm) or "post".
        layer_norm: "biased" (torch) or "unbiased" (Annotated Transformer).
        dropout: residual, embedding and feed-forward dropout.
        feature_dropout: after the feature projection.
        visual_positions: "none", or "grid": fixed row and column codes for vectors that are the cells of a square grid.
        feed_forward_activation: none, relu or gelu.
        make_attention: builds an attention for a place ("encoder", "decoder", "cross").
    """

    def __init__(
        self,
        *,
        feature_size: int,
        vocabulary_size: int,
        d_model: int = 512,
        heads: int = 8,
        d_feed_forward: int = 2048,
        encoder_layers: int = 6,
        decoder_layers: int = 6,
        norm: str = "pre",
        layer_norm: str = "biased",
        dropout: float = 0.1,
        feature_dropout: float = 0.5,
        visual_positions: str = "none",
        feed_forward_activation: str = "relu",
        make_attention: MakeAttention | None = None,
    ) -> None:
        super().__init__()
        make = make_attention or (lambda place: MultiHeadAttention(d_model=d_model, heads=heads))

        def residual() -> Residual:
            return Residual(d_model=d_model, norm=norm, norm_kind=layer_norm, dropout=dropout)

        def feed_forward() -> FeedForward:
            return FeedForward(
                d_model=d_model, d_hidden=d_feed_forward, activation=feed_forward_activation, dropout=dropout
            )

        def final_norm() -> nn.Module:
            return NORMS[layer_norm](d_model) if norm == "pre" else nn.Identity()

        self.feature_embedding = nn.Linear(feature_size, d_model)
        self.feature_dropout = nn.Dropout(feature_dropout)
        self.visual_positions = visual_positions
        self.encoder = nn.ModuleList(
            EncoderLayer(attention=make("encoder"), feed_forward=feed_forward(), residual=residual)
            for _ in range(encoder_layers)
        )
        self.encoder_norm = final_norm()
        self.word_embedding = nn.Embedding(vocabulary_size, d_model)
        self.register_buffer("positions", sinusoid_table(LONGEST, d_model).float(), persistent=False)
        self.word_dropout = nn.Dropout(dropout)
        self.decoder = nn.ModuleList(
            DecoderLayer(attention=make("decoder"), cross=make("cross"), feed_forward=feed_forward(), residual=residual)
            for _ in range(decoder_layers)
        )
        self.decoder_norm = final_norm()
        self.output = nn.Linear(d_model, vocabulary_size)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def encode(self, features: Tensor, mask: Tensor) -> Memory:
        """[B, N, F], [B, N] -> Memory; vectors that the mask hides change nothing."""
        x = torch.relu(self.feature_embedding(features))
        if self.visual_positions == "grid":
            x = x + _grid_positions(x)
        x = self.feature_dropout(x)[:, None]  # [B, 1, N, D]
        for layer in self.encoder:
            x = layer(x, mask)
        return Memory(self.encoder_norm(x)[:, 0], mask)

    def _embed(self, tokens: Tensor, position: int) -> Tensor:
        """Tokens [B, C, T] at positions from `position` on -> [B, C, T, D]."""
        words = self.word_embedding(tokens)
        places = cast(Tensor, self.positions)[position : position + tokens.shape[-1]].to(words.dtype)
        return self.word_dropout(words * math.sqrt(words.shape[-1]) + places)

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        """Tokens [B, C, T] -> hidden [B, C, T, D]."""
        x = self._embed(tokens, 0)
        for layer in cast(list[DecoderLayer], self.decoder):
            x = layer(x, layer.cross.keys(memory.values[:, None]), memory.mask)
        return self.decoder_norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        return self.output(hidden)

    def start(self, memory: Memory) -> State:
        """Project the image's keys once a layer and open empty word caches."""
        state = State(memory)
        for index, layer in enumerate(cast(list[DecoderLayer], self.decoder)):
            per_beam, per_image = layer.start(memory)
            state.per_beam |= {f"{index}/{name}": value for name, value in per_beam.items()}
            state.per_image |= {f"{index}/{name}": value for name, value in per_image.items()}
        return state

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Tokens [B, C] -> log-probabilities [B, C, V], and the state with this word in its caches."""
        x = self._embed(tokens[..., None], state.position)  # [B, C, 1, D]
        moved: dict[str, Tensor] = {}
        for index, layer in enumerate(cast(list[DecoderLayer], self.decoder)):
            per_beam, per_image = _of_layer(index, state.per_beam), _of_layer(index, state.per_image)
            image_keys = cast(KeyValue, _values("image", per_image))
            x = layer.step(x, per_beam, image_keys, state.memory.mask)
            moved |= {f"{index}/{name}": value for name, value in per_beam.items()}
        log_probabilities = self.log_probabilities(self.decoder_norm(x[:, :, 0]))
        return log_probabilities, State(state.memory, state.position + 1, moved, state.per_image)


def _grid_positions(x: Tensor) -> Tensor:
    """Return the codes [N, D] of the cells that x [B, N, D] holds."""
    side = math.isqrt(x.shape[1])
    if side * side != x.shape[1]:
        raise ValueError(f"grid positions need the cells of a square grid, but an image has {x.shape[1]} vectors")
    return grid_table(side, x.shape[2]).to(x)


def _of_layer(index: int, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of one layer under their names within it."""
    prefix = f"{index}/"
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
