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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict, cast

import torch
from torch import Tensor, nn

from recap.layers.attention import Attention, KeyValue, MultiHeadAttention
from recap.layers.fast import Linear, PackedIndex, fast
from recap.layers.feed_forward import FeedForward
from recap.layers.masks import causal_mask, key_mask
from recap.layers.positional import grid_table, sinusoid_table
from recap.layers.residual import NORMS, Residual
from recap.layers.rows import Rows
from recap.layers.stack import Stack
from recap.models.base import Captioner, token_mask
from recap.models.cache import KeyValueCache
from recap.models.images import Images, InputSpec
from recap.models.state import PER_BEAM, Memory, State
from recap.models.transformer_layers import DecoderLayer, EncoderLayer, Past

MakeAttention = Callable[[str], Attention]  # builds the attention of a place: encoder, decoder or cross
MAX_POSITIONS = 512  # maximum tokens per caption


@dataclass(frozen=True, kw_only=True)
class TransformerState(State):
    """The tokens so far, and the image's keys and values of each decoder layer."""

    cache: KeyValueCache = field(metadata=PER_BEAM)
    image: tuple[KeyValue, ...]


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


class Transformer(Captioner):
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

    Attributes:
        packs: whether padding may be left out, because no token's result depends on padded ones.
    """

    packs = True
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

        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_dropout = nn.Dropout(feature_dropout)
        self.visual_positions = visual_positions
        self.encoder = Stack[EncoderLayer](
            EncoderLayer(attention=make("encoder"), feed_forward=feed_forward(), residual=residual)
            for _ in range(encoder_layers)
        )
        self.encoder_norm = final_norm()
        self.word_embedding = nn.Embedding(inputs.vocabulary_size, d_model)
        self.register_buffer("positions", sinusoid_table(MAX_POSITIONS, d_model, torch.float32), persistent=False)
        self.word_dropout = nn.Dropout(dropout)
        self.decoder = Stack[DecoderLayer](
            self.decoder_layer(
                attention=make("decoder"), cross=make("cross"), feed_forward=feed_forward(), residual=residual
            )
            for _ in range(decoder_layers)
        )
        self.decoder_norm = final_norm()
        self.output = Linear(d_model, inputs.vocabulary_size)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def encode(self, images: Images) -> Memory:
        """Images -> Memory; vectors that the mask hides change nothing."""
        values, mask = images.main.values, images.main.mask
        x = torch.relu(self.feature_embedding(values))
        if self.visual_positions == "grid":
            x = x + _grid_positions(x)
        x = self.feature_dropout(x)[:, None]  # [B, 1, N, D]
        rows = Rows(x, token_mask=self._if_any_is_hidden(mask[:, None]))
        attn_mask = self._if_any_is_hidden(key_mask(mask))
        for layer in self.encoder:
            rows = self.run_layer(layer, rows, attn_mask)
        return Memory(self.encoder_norm(rows.values)[:, 0], mask)

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Token ids [...] and their positions in the caption [...] -> [..., D]."""
        embedded = self.word_embedding(tokens)
        table = cast(Tensor, self.positions).to(embedded.dtype)
        return self.word_dropout(embedded * math.sqrt(embedded.shape[-1]) + table[positions])

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        """Tokens [B, C, T] -> hidden [B, C, T, D]."""
        return self._decode_padded(tokens, token_mask(tokens), memory)

    def decode_words(self, tokens: Tensor, token_mask: Tensor, memory: Memory) -> Tensor:
        """As `decode`, of the R tokens that are not padding: [R, D]; padding takes part in attention products only."""
        if not self.packs or not fast():
            return self._decode_padded(tokens, token_mask, memory)[token_mask]
        index = PackedIndex(token_mask)
        positions = torch.arange(tokens.shape[-1], device=tokens.device).expand_as(tokens)
        x = Rows(self._embed(index.pack(tokens), index.pack(positions)), index)
        return self._decode(x, memory).values

    def _decode_padded(self, tokens: Tensor, token_mask: Tensor | None, memory: Memory) -> Tensor:
        """As `decode`; `token_mask` [B, C, T] is True where a token is not padding, None where it does not matter."""
        positions = torch.arange(tokens.shape[-1], device=tokens.device)
        return self._decode(Rows(self._embed(tokens, positions), token_mask=token_mask), memory).values

    def _decode(self, x: Rows, memory: Memory) -> Rows:
        """Run the decoder on all tokens."""
        self_mask, cross_mask = self._self_mask(x), self._cross_mask(x, memory)
        for layer, image in zip(self.decoder, self._image_key_values(memory), strict=True):
            x = self.run_layer(layer, x, image, self_mask, cross_mask)
        return x.map(self.decoder_norm)

    def _image_key_values(self, memory: Memory) -> Iterator[KeyValue]:
        """Project the image's keys and values for each decoder layer."""
        return (layer.cross.key_value(Rows(memory.values[:, None])) for layer in self.decoder)

    def _self_mask(self, x: Rows) -> Tensor:
        """Return which tokens a token may attend to under teacher forcing, broadcastable to [B, C, T, T]."""
        return causal_mask(x.shape[2], x.values.device)

    def _cross_mask(self, x: Rows, memory: Memory) -> Tensor | None:
        """Return which vectors of the image a token may attend to, broadcastable to [B, C, T, N]."""
        return self._if_any_is_hidden(key_mask(memory.mask))

    def _if_any_is_hidden(self, mask: Tensor) -> Tensor | None:
        """Return the mask, or None if it hides nothing, which saves its use.

        Asking would stall a GPU, where masks cost little, or cut a graph.
        """
        asks = mask.device.type == "cpu" and not torch.compiler.is_compiling()
        return None if asks and bool(mask.all()) else mask

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        return self.output(hidden)

    def start(self, memory: Memory) -> State:
        """Project the image's keys once per layer and open an empty cache."""
        cache = KeyValueCache.empty(len(memory.values), len(self.decoder), memory.values.device)
        return TransformerState(memory, cache=cache, image=tuple(self._image_key_values(memory)))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Tokens [B, C] -> log-probabilities [B, C, V], and the state with these tokens in its cache.

        No gradient passes through the cache.
        """
        state = cast(TransformerState, state)
        cache = state.cache.extended()
        past = [Past(cache, layer) for layer in range(len(self.decoder))]
        return self._step(tokens, state, past), replace(state, position=state.position + 1, cache=cache)

    def _step(self, tokens: Tensor, state: TransformerState, past: Sequence[Past]) -> Tensor:
        """Run the decoder on one token per beam -> log-probabilities [B, C, V]."""
        position = torch.tensor(state.position, device=tokens.device)
        x = Rows(self._embed(tokens[..., None], position))  # [B, C, 1, D]
        self_mask, cross_mask = past[0].cache.mask, self._cross_mask(x, state.memory)
        for layer, image, before in zip(self.decoder, state.image, past, strict=True):
            x = layer(x, image, self_mask, cross_mask, before)
        return self.log_probabilities(self.decoder_norm(x.values[:, :, 0]))


def _grid_positions(x: Tensor) -> Tensor:
    """Return the codes [N, D] of the cells that x [B, N, D] holds."""
    side = math.isqrt(x.shape[1])
    if side * side != x.shape[1]:
        raise ValueError(f"grid positions need the cells of a square grid, but an image has {x.shape[1]} vectors")
    return grid_table(side, x.shape[2]).to(x)
