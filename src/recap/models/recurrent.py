"""Captioners whose decoder is an LSTM that attends to the image at every token.

    [h, ...] = LSTM([word ; image ; ...])
    attended = attention(h, image vectors)
    logits = W hidden

What no token changes (keys, values, the image's part of the LSTM's input) is projected once per
image, and the words of a whole caption at once; only what depends on the last token is computed
token by token.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from recap.models.base import Captioner
from recap.models.state import PER_BEAM, GlobalMemory, State
from recap.nn.attention import Attention, KeyValue
from recap.nn.fast import Linear, deferred_weight_grad
from recap.nn.layers import LSTMCell
from recap.nn.rows import Rows, key_mask


@dataclass(frozen=True, kw_only=True)
class RecurrentState(State[GlobalMemory]):
    """What is projected once per image; each model adds what its LSTMs keep for each beam."""

    key_value: KeyValue  #: of the decoder's attention
    image: Tensor  #: the image's part of the LSTM's projected input, [B, 4D]


RecurrentT = TypeVar("RecurrentT", bound=RecurrentState)


class RecurrentCaptioner(Captioner[GlobalMemory, RecurrentT]):
    """Base of recurrent captioners."""

    compiled_passes = ("encode", "advance")
    in_buckets = False
    d_model: int  #: D, width of the LSTM that reads the words
    attention: Attention  #: over the image
    output_dropout: nn.Module  #: before the output layer, under teacher forcing
    output: Linear  #: to ids

    @property
    @abstractmethod
    def input_lstm(self) -> LSTMCell:
        """The LSTM that reads the words; columns of its input from `d_model` on read the image."""

    @abstractmethod
    def zero_state(self, zero: Tensor, **shared: Any) -> RecurrentT:
        """Return the state before the first token; zero: [B, 1, D]; shared: common fields."""

    @abstractmethod
    def embed(self, tokens: Tensor) -> Tensor:
        """Token ids [...] -> their part of the LSTM's projected input, [..., 4D]."""

    @abstractmethod
    def advance(self, token: Tensor, state: RecurrentT) -> RecurrentT:
        """One time step; token: its part of the LSTM's projected input, [B, C, 4D]."""

    @abstractmethod
    def hidden(self, state: RecurrentT) -> Tensor:
        """Return what the output layer reads, [B, C, D]."""

    def attend(self, query: Tensor, state: RecurrentT) -> Tensor:
        """Query [B, C, D] -> attended vector [B, C, F]."""
        rows = Rows(query[:, :, None])
        mask = key_mask(state.memory.mask)
        return self.attention(rows, state.key_value, attn_mask=mask).values[:, :, 0]

    def decode(self, tokens: Tensor, memory: GlobalMemory) -> Tensor:
        """Tokens [B, C, T] -> hidden [B, C, T, D]."""
        hidden = []
        with deferred_weight_grad():
            projected = self.embed(tokens)  # [B, C, T, 4D]
            state = self.start(memory).reorder(
                torch.zeros(tokens.shape[:2], dtype=torch.long, device=tokens.device)
            )
            for token in projected.unbind(2):
                state = self.advance(token, state)
                hidden.append(self.hidden(state))
        return self.output_dropout(torch.stack(hidden, 2))

    def attention_modules(self) -> list[nn.Identity]:
        """Return where the decoder's attention passes its weights; see `recap.models.explained`."""
        return [cast(nn.Identity, self.attention.weights)]

    def start(self, memory: GlobalMemory) -> RecurrentT:
        """Zero state; keys, values and the image's LSTM input are projected once per image."""
        key_value = self.attention.key_value(Rows(memory.values[:, None]))
        image = self.input_lstm.project_input(memory.summary, self.d_model)
        zero = memory.values.new_zeros(len(image), 1, self.d_model)
        return self.zero_state(zero, memory=memory, key_value=key_value, image=image)

    def step(self, tokens: Tensor, state: RecurrentT) -> tuple[Tensor, RecurrentT]:
        """Tokens [B, C] -> log-probabilities [B, C, V] and the new state."""
        state = self.advance(self.embed(tokens), state)
        return self.log_probabilities(self.hidden(state)), state


@dataclass(frozen=True, kw_only=True)
class ContextState(RecurrentState):
    """An LSTM's h and c of each beam, [B, C, D], and the context,
    which the next step and the output layer read."""

    h: Tensor = field(metadata=PER_BEAM)
    c: Tensor = field(metadata=PER_BEAM)
    context: Tensor = field(metadata=PER_BEAM)


class ContextCaptioner(RecurrentCaptioner[ContextState]):
    """Base of those with one LSTM, which reads [word ; image + context].

    The context of a token is also its output.
    """

    lstm: LSTMCell  #: of width D, whose input is 2 D wide
    context_dropout: nn.Module  #: on the context that the LSTM reads

    @abstractmethod
    def context(self, h: Tensor, state: ContextState) -> Tensor:
        """Attend to the image with the LSTM's h [B, C, D], and return the context [B, C, D]."""

    def advance(self, token: Tensor, state: ContextState) -> ContextState:
        """One time step; token: its part of the LSTM's projected input, [B, C, 4D]."""
        # The projection of image + context is linear, so that each is projected by itself.
        context = self.lstm.project_input(self.context_dropout(state.context), self.d_model)
        h, c = self.lstm.step(token + state.image[:, None] + context, state.h, state.c)
        return state.advanced(h=h, c=c, context=self.context(h, state))

    @property
    def input_lstm(self) -> LSTMCell:
        """The only LSTM."""
        return self.lstm

    def zero_state(self, zero: Tensor, **shared: Any) -> ContextState:
        """[B, 1, D] -> the state before the first token."""
        return ContextState(h=zero, c=zero, context=zero, **shared)

    def hidden(self, state: ContextState) -> Tensor:
        """Return the context."""
        return state.context
