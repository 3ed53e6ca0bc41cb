"""Up-Down: an attention LSTM and a language LSTM.

Paper: Anderson et al. 2018, "Bottom-Up and Top-Down Attention", section 3.2, as the X-LAN code base carries it (its
class has no configuration file; not opened here) and, with `feature_embedding`, as ImageCaptioning.pytorch has it:

    h1 = LSTM1([h2 ; mean v ; word], h1),   v = attention(h1),   h2 = LSTM2([v ; h1], h2),   logits = W h2

Departs: the mean and the attention leave out padded vectors, which the code's class does not; for images without
padding they are equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

import torch
from torch import Tensor, nn

from recap.layers.activations import activation
from recap.layers.additive import AdditiveAttention
from recap.layers.attention import KeyValue
from recap.layers.fast import Linear, deferred_weight_grad
from recap.layers.masks import key_mask
from recap.layers.recurrent import LSTMCell
from recap.layers.rows import Rows
from recap.models.base import Captioner
from recap.models.global_memory import GlobalMemory, masked_mean
from recap.models.images import Images, InputSpec
from recap.models.state import PER_BEAM, Memory, State


@dataclass(frozen=True, kw_only=True)
class UpDownState(State):
    """Attention LSTM (h1, c1) and language LSTM (h2, c2) of each beam, [B, C, R], and what is projected once per image.

    Attributes:
        key_value: of the attention.
        image: the mean's part of the attention LSTM's projected input, [B, 4R].
    """

    h1: Tensor = field(metadata=PER_BEAM)
    c1: Tensor = field(metadata=PER_BEAM)
    h2: Tensor = field(metadata=PER_BEAM)
    c2: Tensor = field(metadata=PER_BEAM)
    key_value: KeyValue
    image: Tensor


class UpDown(Captioner):
    """The Up-Down captioner.

    Args:
        inputs: width F of the main stream and number V of ids.
        d_model: width of both LSTMs.
        d_word: width of the word vectors.
        d_attention: width of the attention's hidden layer.
        d_feature: width to which visual vectors are projected (linear, ReLU, dropout); 0: used as they are.
        attention_activation: tanh (paper) or relu.
        word_activation: none or relu.
        dropout: on projected features, words, and before the output layer.
    """

    def __init__(
        self,
        inputs: InputSpec,
        *,
        d_model: int,
        d_word: int,
        d_attention: int,
        d_feature: int,
        attention_activation: str,
        word_activation: str,
        dropout: float,
    ) -> None:
        super().__init__()
        width = d_feature or inputs.feature_size
        self.d_model = d_model
        self.word_activation = activation(word_activation, known=("none", "relu"))
        self.feature_embedding = nn.Linear(inputs.feature_size, d_feature) if d_feature else None
        self.word_embedding = nn.Embedding(inputs.vocabulary_size, d_word)
        self.attention_lstm = LSTMCell(d_model + width + d_word, d_model)
        self.attention = AdditiveAttention(
            d_query=d_model, d_source=width, d_hidden=d_attention, activation=attention_activation
        )
        self.language_lstm = LSTMCell(width + d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.output = Linear(d_model, inputs.vocabulary_size)

    def encode(self, images: Images) -> GlobalMemory:
        """Images -> the vectors and their mean."""
        features, mask = images.main.values, images.main.mask
        if self.feature_embedding is not None:
            features = self.dropout(torch.relu(self.feature_embedding(features)))
        features = features.masked_fill(~mask[..., None], 0)
        return GlobalMemory(features, mask, masked_mean(features, mask))

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        """Tokens [B, C, T] -> hidden [B, C, T, R]."""
        projected, state = self._embed(tokens), cast(UpDownState, self.start(memory))
        state = state.reorder(torch.zeros(tokens.shape[:2], dtype=torch.long, device=tokens.device))
        hidden = []
        with deferred_weight_grad():
            for token in projected.unbind(2):
                state = self._advance(token, state)
                hidden.append(state.h2)
        return self.dropout(torch.stack(hidden, 2))

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., R] -> [..., V]."""
        return self.output(hidden)

    def attention_modules(self) -> list[nn.Identity]:
        """Return where the attention passes its weights; see `recap.models.attention_maps`."""
        return [self.attention.weights]

    def start(self, memory: Memory) -> State:
        """Zero state; keys and the mean's part of the attention LSTM are projected once per image."""
        key_value = self.attention.key_value(Rows(memory.values[:, None]))
        image = self.attention_lstm.project_input(cast(GlobalMemory, memory).summary, self.d_model)
        zero = memory.values.new_zeros(len(image), 1, self.d_model)
        return UpDownState(memory, h1=zero, c1=zero, h2=zero, c2=zero, key_value=key_value, image=image)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Tokens [B, C] -> log-probabilities [B, C, V] and the new state."""
        state = self._advance(self._embed(tokens), cast(UpDownState, state))
        return self.log_probabilities(state.h2), state

    def _embed(self, tokens: Tensor) -> Tensor:
        """Token ids [...] -> their part of the attention LSTM's projected input, [..., 4R]."""
        embedded = self.word_activation(self.word_embedding(tokens))
        first = self.attention_lstm.weight_ih.shape[1] - embedded.shape[-1]
        return self.attention_lstm.project_input(self.dropout(embedded), first)

    def _advance(self, token: Tensor, state: UpDownState) -> UpDownState:
        """One time step; token: its part of the attention LSTM's projected input, [B, C, 4R]."""
        attention_lstm, language_lstm = self.attention_lstm, self.language_lstm
        projected = token + state.image[:, None] + attention_lstm.project_input(state.h2, 0)
        h1, c1 = attention_lstm.step(projected, state.h1, state.c1)
        query, mask = Rows(h1[:, :, None]), key_mask(state.memory.mask)
        attended = self.attention(query, state.key_value, attn_mask=mask).values[:, :, 0]
        projected = language_lstm.project_input(attended, 0) + language_lstm.project_input(h1, attended.shape[-1])
        h2, c2 = language_lstm.step(projected, state.h2, state.c2)
        return replace(state, position=state.position + 1, h1=h1, c1=c1, h2=h2, c2=c2)
