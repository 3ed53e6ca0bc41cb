"""What all Transformers share: their layers, and on the side
of the words teacher forcing and decoding with a cache.

    x_0 = embed(tokens, positions),   x_l = layer_l(x_l-1, image)
    hidden = norm(x_L),   logits = output(hidden)

A model brings its layers (`TokenLayer`); embedding, masks, norm and output are those here, or its
own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from recap.core.errors import ConfigError
from recap.models.base import Captioner, token_mask
from recap.models.state import PER_BEAM, KeyValueCache, LevelMemory, Memory, MemoryT, State
from recap.nn.attention import Attention, KeyValue
from recap.nn.fast import Linear, fast
from recap.nn.layers import Dropout, FeedForward, Residual, Stack, sinusoid_table
from recap.nn.rows import PackedIndex, Rows, causal_mask, key_mask, none_if_all_true


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward: rows of [B, 1, N, D] -> rows of [B, 1, N, D]."""

    def __init__(
        self, *, attention: Attention, feed_forward: nn.Module, residual: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.around_attention = residual()
        self.around_feed_forward = residual()

    def forward(self, x: Rows, attn_mask: Tensor | None, **others: Any) -> Rows:
        """`attn_mask` is broadcastable to [B, 1, N, N].

        `others` are what else the attention takes.
        """
        y = x.within(
            self.around_attention, lambda y: self.attention.to_itself(y, attn_mask, **others)
        )
        return y.like(self.around_feed_forward(y.values, self.feed_forward))


def post_norm_parts(
    *, d_model: int, d_feed_forward: int, dropout: float
) -> tuple[partial[Residual], partial[FeedForward]]:
    """Return what makes the residual connections of a model's layers, with their norms, and their
    feed-forward parts, both as in Vaswani et al. 2017."""
    residual = partial(Residual, d_model=d_model, norm="post", norm_kind="biased", dropout=dropout)
    feed_forward = partial(
        FeedForward,
        d_model=d_model,
        d_hidden=d_feed_forward,
        activation="relu",
        dropout=dropout,
    )
    return residual, feed_forward


def xavier_matrices(module: nn.Module) -> None:
    """Initialize all matrices of a module (Xavier, uniform)."""
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)


@dataclass
class LayerCache:
    """What one decoder layer knows of the tokens before, while a model decodes step by step."""

    cache: KeyValueCache  #: keys and values of all layers; layer: the number of this one
    layer: int
    layer_state: Any = ()  #: what it returned beside the token before; at first `TokenLayer.begin`


def with_cached(past: LayerCache | None, key_value: KeyValue) -> KeyValue:
    """Append the newest token's keys and values,
    and return those of all, to be attended to under `cache.mask`.

    Under teacher forcing there is no past, and all are there.
    """
    if past is None:
        return key_value
    past.cache.append(past.layer, key_value)
    return past.cache.shared(past.layer)


def attend_to_past(
    attention: Attention, x: Rows, attn_mask: Tensor | None, past: LayerCache | None, **others: Any
) -> Rows:
    """Attend to the tokens so far; `others` are what else the attention takes."""
    key_value = with_cached(past, attention.key_value(x))
    return attention(x, key_value, attn_mask=attn_mask, **others)


class TokenLayer(nn.Module, ABC):
    """The interface of a decoder's layers: rows of [B, C, T, D] -> rows of [B, C, T, D]."""

    @abstractmethod
    def image(self, memory: Any) -> Any:
        """Project what the layer attends to in the image, once per image.

        `memory` is that of its model.
        """

    def begin(self, like: Tensor) -> Any:
        """Return what `forward` would have returned beside the rows before the first token.

        `like` [B, ...] is of the images.
        """
        return ()

    @abstractmethod
    def forward(
        self,
        x: Rows,
        image: Any,
        self_mask: Tensor | None,
        cross_mask: Any,
        past: LayerCache | None = None,
        below: Any = (),
    ) -> tuple[Rows, Any]:
        """Apply the layer to all tokens of captions, or, after those of `past`, to one more of
        each.

        `image` is what `image` returned, `cross_mask` its mask, broadcastable to [B, C, T, N];
        `self_mask` is that of the tokens, broadcastable to [B, C, T, T], or to [B, C, 1, S] of the
        cache of `past`.

        The second result is what the layer remembers beside keys and values: the layer above gets
        it as `below`, and the layer itself at the next token as `past.layer_state`. It is made of
        tensors [B, C, ...] in (named) tuples, which follow their beam; () if it is nothing.
        """


class DecoderLayer(TokenLayer):
    """Causal self-attention, cross-attention, feed-forward."""

    def __init__(
        self,
        *,
        attention: Attention,
        cross: Attention,
        feed_forward: nn.Module,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention, self.cross, self.feed_forward = attention, cross, feed_forward
        self.around_attention = residual()
        self.around_cross = residual()
        self.around_feed_forward = residual()

    def image(self, memory: Memory) -> KeyValue:
        """Return keys and values of the image, [B, 1, H, N, K]."""
        return self.cross.key_value(Rows(memory.values[:, None]))

    def forward(
        self,
        x: Rows,
        image: Any,
        self_mask: Tensor | None,
        cross_mask: Any,
        past: LayerCache | None = None,
        below: Any = (),
    ) -> tuple[Rows, Any]:
        """As `TokenLayer.forward`."""
        words = x.within(
            self.around_attention, lambda y: attend_to_past(self.attention, y, self_mask, past)
        )
        return self.after_words(words, image, cross_mask), ()

    def after_words(self, x: Rows, image: Any, cross_mask: Any) -> Rows:
        """Apply what comes after self-attention: attend to the image, then feed-forward."""
        y = x.within(self.around_cross, lambda y: self.cross(y, image, attn_mask=cross_mask))
        return y.like(self.around_feed_forward(y.values, self.feed_forward))


MAX_POSITIONS = 512  # maximum tokens per caption


@dataclass(frozen=True, kw_only=True)
class TransformerState(State[MemoryT]):
    """The tokens so far, and what is projected once per image."""

    cache: KeyValueCache = field(metadata=PER_BEAM)  #: keys and values of the tokens
    #: what each layer remembers of them beside these, see `TokenLayer.forward`
    layer_states: tuple[Any, ...] = field(metadata=PER_BEAM)
    image: tuple[Any, ...]  #: what each layer attends to in the image


def check_length(tokens: int, longest: int) -> None:
    """Refuse captions of so many tokens if there are fewer positions."""
    if tokens > longest:
        raise ConfigError(
            f"a caption has {tokens} tokens, <bos> among them, and the model {longest} positions; "
            "raise its `positions` or `max_tokens` if it has such a key, or lower max_length of "
            "vocabulary and evaluation"
        )


def own_mask(x: Rows, cache: KeyValueCache | None) -> Tensor:
    """Return which tokens a token may attend to: itself and those before it."""
    return causal_mask(x.shape[2], x.values.device) if cache is None else cache.mask


class TransformerDecoder(Captioner[MemoryT, TransformerState[MemoryT]]):
    """The words of every Transformer."""

    #: whether padding may be left out, because no token's result depends on padded ones
    packs = True
    positions: Tensor  #: codes of the positions, [T, D]
    decoder: Any  # where `layers` is overridden, a module that holds them

    def masks(self, x: Rows, memory: MemoryT, cache: KeyValueCache | None) -> tuple[Tensor, Any]:
        """Let tokens attend to those before them, and to the real vectors of the image.

        `cache` is that of decoding, None under teacher forcing. Masks are broadcastable to [B, C,
        T, T] (or [B, C, 1, S] of the cache) and to what the layers expect of the image.
        """
        return own_mask(x, cache), none_if_all_true(key_mask(memory.mask))

    def build_decoder(
        self,
        *,
        vocabulary_size: int,
        d_model: int,
        dropout: float,
        layers: Iterable[nn.Module],
        norm: nn.Module,
    ) -> None:
        """Add word embedding, decoder and output layer,
        and initialize all matrices of the model (Xavier, uniform).

        `dropout` is on embedded words, `norm` comes after the last layer.
        """
        self.word_embedding = nn.Embedding(vocabulary_size, d_model)
        table = sinusoid_table(MAX_POSITIONS, d_model)
        self.register_buffer("positions", table, persistent=False)
        self.word_dropout = Dropout(dropout)
        self.decoder = Stack[Any](layers)
        self.decoder_norm = norm
        self.output = Linear(d_model, vocabulary_size)
        xavier_matrices(self)

    @property
    def layers(self) -> Stack[Any]:
        """The decoder's layers, each a `TokenLayer`."""
        return self.decoder

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Token ids [...] and positions in the caption, broadcastable to [...] -> [..., D]."""
        embedded = self.word_embedding(tokens)
        codes = self.positions.to(embedded.dtype)[positions]
        return self.word_dropout(embedded * math.sqrt(embedded.shape[-1]) + codes)

    @property
    def longest(self) -> int:
        """The most tokens of a caption."""
        return len(self.positions)

    def norm(self, x: Tensor) -> Tensor:
        """Output of the last layer [..., D] -> hidden [..., D]."""
        return self.decoder_norm(x)

    def encode_levels(
        self, layers: Iterable[nn.Module], x: Tensor, mask: Tensor, attn_mask: Tensor | None
    ) -> LevelMemory:
        """Run the layers of an encoder on vectors [B, N, D] -> what each of them gives.

        `mask` [B, N] is kept with it, the layers get `attn_mask`.
        """
        rows = Rows(x[:, None])
        levels = []
        for layer in layers:
            rows = self.run_layer(layer, rows, attn_mask)
            levels.append(rows.values)
        return LevelMemory(rows.values[:, 0], mask, torch.cat(levels, 1))

    def attention_modules(self) -> list[nn.Identity]:
        """Return where the cross-attentions pass their weights; see `recap.models.explained`."""
        return [layer.cross.weights for layer in self.layers]

    def decode(self, tokens: Tensor, memory: MemoryT) -> Tensor:
        """Tokens [B, C, T] -> hidden [B, C, T, D]."""
        return self.decode_padded(tokens, token_mask(tokens), memory)

    def decode_words(self, tokens: Tensor, index: PackedIndex, memory: MemoryT) -> Tensor:
        """As `decode`, of the R tokens that are not padding: [R, D].

        Padding takes part in attention products only.
        """
        if not self.packs or not fast():
            return index.pack(self.decode_padded(tokens, index.token_mask, memory))
        check_length(tokens.shape[-1], self.longest)
        return self._run(Rows(self.embed(index.pack(tokens), index.positions), index), memory)

    def decode_padded(self, tokens: Tensor, token_mask: Tensor | None, memory: MemoryT) -> Tensor:
        """As `decode`; `token_mask` [B, C, T] is True where a token is not padding,
        None where it does not matter."""
        check_length(tokens.shape[-1], self.longest)
        positions = torch.arange(tokens.shape[-1], device=tokens.device)
        return self._run(Rows(self.embed(tokens, positions), token_mask=token_mask), memory)

    def _run(self, x: Rows, memory: MemoryT) -> Tensor:
        """Run the layers on all tokens -> hidden, padded or packed as these."""
        self_mask, cross_mask = self.masks(x, memory, None)
        below: Any = ()
        for layer in self.layers:
            image = layer.image(memory)
            x, below = self.run_layer(layer, x, image, self_mask, cross_mask, None, below)
        return self.norm(x.values)

    def start(self, memory: MemoryT) -> TransformerState[MemoryT]:
        """Let each layer project the image once, and open an empty cache."""
        layers: list[TokenLayer] = list(self.layers)
        return TransformerState(
            memory,
            cache=KeyValueCache.empty(len(memory.values), len(layers), memory.values.device),
            layer_states=tuple(layer.begin(memory.values) for layer in layers),
            image=tuple(layer.image(memory) for layer in layers),
        )

    def step(
        self, tokens: Tensor, state: TransformerState[MemoryT]
    ) -> tuple[Tensor, TransformerState[MemoryT]]:
        """Tokens [B, C] -> log-probabilities [B, C, V], and the state with these tokens in its
        cache.

        No gradient passes through the cache.
        """
        check_length(state.position + 1, self.longest)
        cache = state.cache.extended()
        # made there: no copy, no wait
        here = torch.arange(state.position, state.position + 1, device=tokens.device)
        x = Rows(self.embed(tokens[..., None], here))  # [B, C, 1, D]
        self_mask, cross_mask = self.masks(x, state.memory, cache)
        layer_states: list[Any] = []
        below: Any = ()
        for index, layer in enumerate(self.layers):
            past = LayerCache(cache, index, state.layer_states[index])
            x, below = layer(x, state.image[index], self_mask, cross_mask, past, below)
            layer_states.append(below)
        after = state.advanced(cache=cache, layer_states=tuple(layer_states))
        return self.log_probabilities(self.norm(x.values[:, :, 0])), after
