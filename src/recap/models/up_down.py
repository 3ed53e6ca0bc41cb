"""Up-Down: an LSTM that attends and an LSTM that speaks.

Paper: Anderson et al. 2018, "Bottom-Up and Top-Down Attention", section 3.2, as the X-LAN code base carries it (its
class has no configuration file; not opened here) and, with `feature_embedding`, as ImageCaptioning.pytorch has it:

    h1 = LSTM1([h2 ; mean v ; word], h1),   v = attention(h1),   h2 = LSTM2([v ; h1], h2),   words read off h2

Departs: the mean and the attention leave out padded vectors, which the code's class does not; for images without
padding they are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn

from recap.layers.additive import AdditiveAttention
from recap.layers.fast.linear import Linear, one_gradient
from recap.layers.recurrent import LSTMCell
from recap.models.base import Captioner
from recap.models.global_memory import GlobalMemory, masked_mean
from recap.models.images import Images, InputSpec
from recap.models.official_names import rename
from recap.models.state import Memory, State

NAMES = ("h1", "c1", "h2", "c2")


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
        dropout: on projected features, words, and where words are read off.
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
        self.d_model, self.word_activation = d_model, word_activation
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
        words, state = self._embed(tokens), self.start(memory)
        cells = tuple(state.per_beam[name].expand(-1, tokens.shape[1], -1) for name in NAMES)
        hidden = []
        with one_gradient(self.attention_lstm, self.language_lstm):
            for word in words.unbind(2):
                cells = self._advance(word, cells, state)
                hidden.append(cells[2])
        return self.dropout(torch.stack(hidden, 2))

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., R] -> [..., V]."""
        return self.output(hidden)

    def attention_modules(self) -> list[nn.Identity]:
        """Return where the attention passes its weights; see `recap.models.attention_maps`."""
        return [self.attention.weights]

    def start(self, memory: Memory) -> State:
        """Zero state; keys and the first LSTM's share of the mean are multiplied once an image."""
        keys, _ = self.attention.keys(memory.values[:, None])
        image = self.attention_lstm.project(cast(GlobalMemory, memory).summary, self.d_model)
        zero = memory.values.new_zeros(len(image), 1, self.d_model)
        return State(memory, per_beam=dict.fromkeys(NAMES, zero), per_image={"keys": keys, "image": image})

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Tokens [B, C] -> log-probabilities [B, C, V] and the new state."""
        cells = self._advance(self._embed(tokens), tuple(state.per_beam[name] for name in NAMES), state)
        beam = dict(zip(NAMES, cells, strict=True))
        return self.log_probabilities(cells[2]), State(state.memory, state.position + 1, beam, state.per_image)

    def _embed(self, tokens: Tensor) -> Tensor:
        """Word ids [...] -> their share of the first LSTM's input, [..., 4R]."""
        words = self.word_embedding(tokens)
        if self.word_activation == "relu":
            words = torch.relu(words)
        width = self.attention_lstm.weight_ih.shape[1] - words.shape[-1]
        return self.attention_lstm.project(self.dropout(words), width)

    def _advance(self, word: Tensor, cells: tuple[Tensor, ...], state: State) -> tuple[Tensor, ...]:
        """One word: its share of the input [B, C, 4R] and both cells' states [B, C, R]."""
        h1, c1, h2, c2 = cells
        memory, image = state.memory, state.per_image
        h1, c1 = self.attention_lstm.advance(
            word + image["image"][:, None] + self.attention_lstm.project(h2, 0), h1, c1
        )
        keys = (image["keys"], memory.values[:, None])
        attended = self.attention(h1[:, :, None], keys, visible=memory.mask[:, None, None])[:, :, 0]
        language = self.language_lstm
        both = language.project(attended, 0) + language.project(h1, attended.shape[-1])
        h2, c2 = language.advance(both, h2, c2)
        return h1, c1, h2, c2


def rename_official(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map the parameter names of the X-LAN code base's Up-Down to ours (docs/parameters.md).

    Raises:
        ConfigError: a name is none of the released model's.
    """
    rules = [
        (r"^att_embed\.0\.", "feature_embedding."),
        (r"^word_embed\.0\.", "word_embedding."),
        (r"^lstm1\.", "attention_lstm."),
        (r"^lstm2\.", "language_lstm."),
        (r"^p_att_feats\.", "attention.key."),
        (r"^att\.Wah\.", "attention.query."),
        (r"^att\.alpha\.", "attention.score."),
        (r"^logit\.", "output."),
    ]
    known = (
        r"(feature_embedding|word_embedding|attention_lstm|language_lstm|attention|output)\..*(weight|bias)(_[ih]h)?"
    )
    return rename(state, rules, known=known)
