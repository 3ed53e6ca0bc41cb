"""Up-Down: an attention LSTM and a language LSTM.

Paper: Anderson et al. 2018, "Bottom-Up and Top-Down Attention", section 3.2, as the X-LAN code base
carries it (its class has no configuration file; not opened here) and, with `feature_embedding`, as
ImageCaptioning.pytorch has it:

    h1 = LSTM1([h2 ; mean v ; word], h1),   v = attention(h1)
    h2 = LSTM2([v ; h1], h2),   logits = W h2

Departs: the mean and the attention leave out padded vectors, which the code's class does not; for
images without padding they are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from recap.models.images import Images, InputSpec
from recap.models.recurrent import RecurrentCaptioner, RecurrentState
from recap.models.state import PER_BEAM, GlobalMemory, masked_mean
from recap.nn.attention import AdditiveAttention
from recap.nn.fast import Linear
from recap.nn.layers import ACTIVATIONS, Dropout, LSTMCell
from recap.papers.up_down.settings import UpDownModel
from recap.runs.released import Options, Release, agree, rename


@dataclass(frozen=True, kw_only=True)
class UpDownState(RecurrentState):
    """Attention LSTM (h1, c1) and language LSTM (h2, c2) of each beam, [B, C, R]."""

    h1: Tensor = field(metadata=PER_BEAM)
    c1: Tensor = field(metadata=PER_BEAM)
    h2: Tensor = field(metadata=PER_BEAM)
    c2: Tensor = field(metadata=PER_BEAM)


class UpDown(RecurrentCaptioner[UpDownState]):
    """The Up-Down captioner."""

    def __init__(self, inputs: InputSpec, settings: UpDownModel) -> None:
        super().__init__()
        d_model, d_feature = settings.d_model, settings.d_feature
        width = d_feature or inputs.feature_size
        self.d_model = d_model
        self.word_activation = ACTIVATIONS[settings.word_activation]()
        self.feature_embedding = nn.Linear(inputs.feature_size, d_feature) if d_feature else None
        self.word_embedding = nn.Embedding(inputs.vocabulary_size, settings.d_word)
        self.attention_lstm = LSTMCell(d_model + width + settings.d_word, d_model)
        self.attention = AdditiveAttention(
            d_query=d_model, d_source=width, d_hidden=settings.d_attention
        )
        self.language_lstm = LSTMCell(width + d_model, d_model)
        self.dropout = self.output_dropout = Dropout(settings.dropout)
        self.output = Linear(d_model, inputs.vocabulary_size)

    def encode(self, images: Images) -> GlobalMemory:
        """Images -> the vectors and their mean."""
        features, mask = images.main.values, images.main.mask
        if self.feature_embedding is not None:
            features = self.dropout(torch.relu(self.feature_embedding(features)))
        features = features.masked_fill(~mask[..., None], 0)
        return GlobalMemory(features, mask, masked_mean(features, mask))

    @property
    def input_lstm(self) -> LSTMCell:
        """The attention LSTM."""
        return self.attention_lstm

    def zero_state(self, zero: Tensor, **shared: Any) -> UpDownState:
        """[B, 1, R] -> the state before the first token."""
        return UpDownState(h1=zero, c1=zero, h2=zero, c2=zero, **shared)

    def hidden(self, state: UpDownState) -> Tensor:
        """Return the language LSTM's h."""
        return state.h2

    def embed(self, tokens: Tensor) -> Tensor:
        """Token ids [...] -> their part of the attention LSTM's projected input, [..., 4R]."""
        embedded = self.word_activation(self.word_embedding(tokens))
        first = self.attention_lstm.weight_ih.shape[1] - embedded.shape[-1]
        return self.attention_lstm.project_input(self.dropout(embedded), first)

    def advance(self, token: Tensor, state: UpDownState) -> UpDownState:
        """One time step; token: its part of the attention LSTM's projected input, [B, C, 4R]."""
        attention_lstm, language_lstm = self.attention_lstm, self.language_lstm
        projected = token + state.image[:, None] + attention_lstm.project_input(state.h2, 0)
        h1, c1 = attention_lstm.step(projected, state.h1, state.c1)
        attended = self.attend(h1, state)
        projected = language_lstm.project_input(attended, 0) + language_lstm.project_input(
            h1, attended.shape[-1]
        )
        h2, c2 = language_lstm.step(projected, state.h2, state.c2)
        return state.advanced(h1=h1, c1=c1, h2=h2, c2=c2)


# Released checkpoints: of the X-LAN code base's class (JDAI-CV/image-captioning)

RULES = {
    r"^att_embed\.0\.": "feature_embedding.",
    r"^word_embed\.0\.": "word_embedding.",
    r"^lstm1\.": "attention_lstm.",
    r"^lstm2\.": "language_lstm.",
    r"^p_att_feats\.": "attention.key.",
    r"^att\.Wah\.": "attention.query.",
    r"^att\.alpha\.": "attention.score.",
    r"^logit\.": "output.",
}
rename_official = partial(rename, rules=RULES)


def released_settings(tensors: Mapping[str, Tensor], options: Options) -> dict[str, Any]:
    """Return the settings of the Up-Down that tensors belong to: sizes from shapes, the words'
    activation from `config.yml`."""
    # The release's own default is RELU, which this attention does not have.
    options = {"MODEL.ATT_ACT": "RELU", **options}
    agree(options, {"MODEL.TYPE": "UpDown", "MODEL.ATT_ACT": "TANH"})
    embedding = tensors.get("feature_embedding.weight")
    return {
        "kind": "up_down",
        "d_model": tensors["attention_lstm.weight_hh"].shape[1],
        "d_word": tensors["word_embedding.weight"].shape[1],
        "d_attention": len(tensors["attention.query.weight"]),
        "d_feature": 0 if embedding is None else len(embedding),
        "word_activation": str(options.get("MODEL.WORD_EMBED_ACT", "NONE")).lower(),
    }


RELEASE = Release(
    rename=rename_official,
    settings=released_settings,
    decoding={"beam": 3, "max_length": 17},
    features=("feature_embedding.weight", "attention.key.weight"),
)
