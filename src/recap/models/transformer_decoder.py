"""What all Transformers share on the side of the words: embedding, decoder, output layer, and the cache of decoding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from recap.models.base import Captioner, token_mask
from recap.models.cache import KeyValueCache
from recap.models.state import PER_BEAM, Memory, State
from recap.models.transformer_layers import Past
from recap.nn.fast import Linear, PackedIndex, fast
from recap.nn.masks import causal_mask, key_mask
from recap.nn.positional import sinusoid_table
from recap.nn.rows import Rows
from recap.nn.stack import Stack

MAX_POSITIONS = 512  # maximum tokens per caption


@dataclass(frozen=True, kw_only=True)
class TransformerState(State):
    """The tokens so far, and the image's keys and values of each decoder layer."""

    cache: KeyValueCache = field(metadata=PER_BEAM)
    image: tuple[Any, ...]


class TransformerDecoder(Captioner):
    """The words of every Transformer; a model adds its encoder, and ends its constructor with `build_decoder`.

    Attributes:
        packs: whether padding may be left out, because no token's result depends on padded ones.
    """

    packs = True

    def build_decoder(
        self, *, vocabulary_size: int, d_model: int, dropout: float, layers: Iterable[nn.Module], norm: nn.Module
    ) -> None:
        """Add word embedding, decoder and output layer, and initialise all matrices of the model (Xavier, uniform).

        Args:
            vocabulary_size: V.
            d_model: D.
            dropout: on embedded words.
            layers: of the decoder, called as `recap.models.transformer_layers.DecoderLayer`.
            norm: after the last layer.
        """
        self.word_embedding = nn.Embedding(vocabulary_size, d_model)
        self.register_buffer("positions", sinusoid_table(MAX_POSITIONS, d_model, torch.float32), persistent=False)
        self.word_dropout = nn.Dropout(dropout)
        self.decoder = Stack[Any](layers)
        self.decoder_norm = norm
        self.output = Linear(d_model, vocabulary_size)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

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

    def _image_key_values(self, memory: Memory) -> Iterator[Any]:
        """Project the image's keys and values for each decoder layer."""
        return (layer.cross.key_value(Rows(memory.values[:, None])) for layer in self.decoder)

    def _self_mask(self, x: Rows) -> Tensor:
        """Return which tokens a token may attend to under teacher forcing, broadcastable to [B, C, T, T]."""
        return causal_mask(x.shape[2], x.values.device)

    def _cross_mask(self, x: Rows, memory: Memory) -> Any:
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
