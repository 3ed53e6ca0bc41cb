"""X-LAN: X-Linear attention in encoder and decoder, around an LSTM.

Paper: Pan et al. 2020, "X-Linear Attention Networks for Image Captioning", section 3.3, Eq. 7-10; code:
JDAI-CV/image-captioning, not opened here. As the released code has it, where that differs from the paper:
  - 8 heads (D_B = 8 x 128, D_c = 8 x 64), CELU(1.3) and group norms in the blocks, keys and values updated as one;
  - a norm after W_G; the LSTM reads [word ; global + context], 2 D wide, not four vectors side by side;
  - the attended vector passes through norm(W [h ; v]) before the GLU.
The rows of Table 3: `encoder_layers` 0 to 4, `decoder_attention` conventional or x_linear, `activation` relu or celu.
Departs: with `decoder_attention: conventional` (not released) only the attention itself is exchanged, for Eq. 1.
Expected: 75.2 M parameters with 2048-d features and 9,488 ids. Torch's initialisation; the output layer is not tied.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import celu, glu

from recap.layers.additive import AdditiveAttention
from recap.layers.attention import KeyValue
from recap.layers.fast.dropout import Dropout
from recap.layers.fast.linear import Linear, Loops, one_gradient
from recap.layers.recurrent import LSTMCell
from recap.layers.x_linear import FeatureMix, XLinear
from recap.models.base import Captioner
from recap.models.global_memory import GlobalMemory, masked_mean
from recap.models.images import Images, InputSpec
from recap.models.official_names import X_LINEAR, rename
from recap.models.state import Memory, State

CELU_SCALE = 1.3  # of region and word embeddings


class XLanEncoder(nn.Module):
    """Stacked X-Linear blocks over the regions, each queried by the last one's output (Eq. 7-8, 10)."""

    def __init__(self, *, d_model: int, blocks: list[XLinear], dropout: float, mix_dropout: float) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.mixes = nn.ModuleList(FeatureMix(d_model=d_model, dropout=mix_dropout) for _ in blocks)
        self.dropout = Dropout(dropout)
        self.projection = Linear((len(blocks) + 1) * d_model, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, regions: Tensor, mask: Tensor) -> GlobalMemory:
        """[B, N, D], [B, N] -> updated regions and global vector."""
        x, visible = regions[:, None], mask[:, None, None]
        g = masked_mean(regions, mask)[:, None, None]  # [B, 1, 1, D]
        summaries = [g]
        for block, mix in zip(cast(list[XLinear], self.blocks), self.mixes, strict=True):
            g = self.dropout(block(g, block.keys(x), visible=visible))
            x = mix(g, x)
            summaries.append(g)
        return GlobalMemory(x[:, 0], mask, self.norm(self.projection(torch.cat(summaries, -1)))[:, 0, 0])


class AttendedState(nn.Module):
    """v' = norm(W [h ; v]), then GLU(W' [v' ; h]): state and attended vector -> context, all [..., D]."""

    def __init__(self, *, d_model: int) -> None:
        super().__init__()
        self.linear = Linear(2 * d_model, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.gate = Linear(2 * d_model, 2 * d_model)

    def forward(self, h: Tensor, attended: Tensor) -> Tensor:
        """Join them."""
        v = self.norm(self.linear(torch.cat([h, attended], -1)))
        return glu(self.gate(torch.cat([v, h], -1)), -1)


class XLan(Captioner):
    """X-LAN and the variants of its ablation.

    Args:
        inputs: width F of the main stream and number V of ids.
        d_model: D, width of everything; heads: H; d_joint: width of B' in a head.
        encoder_layers: blocks in the encoder; 0: the global vector is made of the mean alone.
        decoder_attention: x_linear or conventional (Eq. 1, tanh, H * d_joint wide).
        activation: of the blocks: celu, elu or relu; alpha: its scale.
        feature_dropout: on regions; word_dropout: on words; attention_dropout: on the blocks' outputs;
        joint_dropout: on B'; mix_dropout: on the update of the regions; context_dropout: on the context, both where
            the LSTM reads it and, under teacher forcing, where the words are read off.
    """

    def __init__(
        self,
        inputs: InputSpec,
        *,
        d_model: int,
        heads: int,
        d_joint: int,
        encoder_layers: int,
        decoder_attention: str,
        activation: str,
        alpha: float,
        feature_dropout: float,
        word_dropout: float,
        attention_dropout: float,
        joint_dropout: float,
        mix_dropout: float,
        context_dropout: float,
    ) -> None:
        super().__init__()
        block = partial(
            XLinear,
            d_model=d_model,
            heads=heads,
            d_joint=d_joint,
            activation_name=activation,
            alpha=alpha,
            dropout=joint_dropout,
        )
        self.d_model = d_model
        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_dropout = Dropout(feature_dropout)
        self.encoder = XLanEncoder(
            d_model=d_model,
            blocks=[block() for _ in range(encoder_layers)],
            dropout=attention_dropout,
            mix_dropout=mix_dropout,
        )
        self.word_embedding = nn.Embedding(inputs.vocabulary_size, d_model)
        self.word_dropout = Dropout(word_dropout)
        self.lstm = LSTMCell(2 * d_model, d_model)
        self.attention: XLinear | AdditiveAttention = (
            block()
            if decoder_attention == "x_linear"
            else AdditiveAttention(d_query=d_model, d_source=d_model, d_hidden=heads * d_joint)
        )
        self.attention_dropout = Dropout(attention_dropout)
        self.attended = AttendedState(d_model=d_model)
        self.context_dropout = Dropout(context_dropout)
        self.output_dropout = Dropout(context_dropout)
        self.output = Linear(d_model, inputs.vocabulary_size)

    def encode(self, images: Images) -> GlobalMemory:
        """Images -> regions and global vector; vectors that the mask hides change nothing."""
        regions = self.feature_dropout(celu(self.feature_embedding(images.main.values), CELU_SCALE))
        return cast(GlobalMemory, self.encoder(regions, images.main.mask))

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        """Tokens [B, C, T] -> contexts [B, C, T, D]."""
        words, state = self._embed(tokens), self.start(memory)  # [B, C, T, 4D]
        h, c, context = (x.expand(-1, tokens.shape[1], -1) for x in state.per_beam.values())
        contexts = []
        with one_gradient(*self._looped()):
            for word in words.unbind(2):
                h, c, context = self._advance(word, h, c, context, state)
                contexts.append(context)
        return self.output_dropout(torch.stack(contexts, 2))

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        return self.output(hidden)

    def attention_modules(self) -> list[nn.Identity]:
        """Return where the decoder's attention passes its weights; see `recap.models.attention_maps`."""
        return [self.attention.weights]

    def start(self, memory: Memory) -> State:
        """Zero state; what no word changes is multiplied once an image: keys, values, the LSTM's share of the image."""
        keys, values = self.attention.keys(memory.values[:, None])
        image = self.lstm.project(cast(GlobalMemory, memory).summary, self.d_model)
        zero = memory.values.new_zeros(len(image), 1, self.d_model)
        return State(
            memory,
            per_beam={"h": zero, "c": zero, "context": zero},
            per_image={"keys": keys, "values": values, "image": image},
        )

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Tokens [B, C] -> log-probabilities [B, C, V] and the new state."""
        h, c, context = (state.per_beam[name] for name in ("h", "c", "context"))
        h, c, context = self._advance(self._embed(tokens), h, c, context, state)
        beam = {"h": h, "c": c, "context": context}
        return self.log_probabilities(context), State(state.memory, state.position + 1, beam, state.per_image)

    def _embed(self, tokens: Tensor) -> Tensor:
        """Word ids [...] -> their share of the LSTM's input, [..., 4D]."""
        words = self.word_dropout(celu(self.word_embedding(tokens), CELU_SCALE))
        return self.lstm.project(words, 0)

    def _looped(self) -> list[Loops]:
        """Return what multiplies with its weights at every word."""
        own: list[Loops] = [self.lstm, self.attended.linear, self.attended.gate]
        if isinstance(self.attention, XLinear):
            own += [self.attention.query_key.linear, self.attention.query_value.linear]
        return own

    def _advance(
        self, word: Tensor, h: Tensor, c: Tensor, context: Tensor, state: State
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One word: its share of the input [B, C, 4D] and the state, each [B, C, D]."""
        image, mask = state.per_image, state.memory.mask
        context = self.lstm.project(self.context_dropout(context), self.d_model)  # linear: added to the global's share
        h, c = self.lstm.advance(word + image["image"][:, None] + context, h, c)
        keys: KeyValue = (image["keys"], image["values"])
        attended = self.attention(h[:, :, None], keys, visible=mask[:, None, None])[:, :, 0]
        return h, c, self.attended(h, self.attention_dropout(attended))


def rename_official(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map the released X-LAN's parameter names to ours (docs/parameters.md).

    Raises:
        ConfigError: a name is none of the released model's.
    """
    rules = [
        (r"^att_embed\.0\.", "feature_embedding."),
        (r"^encoder_layers\.layers\.(\d+)\.encoder_attn\.", r"encoder.blocks.\1."),
        (r"^encoder_layers\.bifeat_emb\.(\d+)\.0\.", r"encoder.mixes.\1.linear."),
        (r"^encoder_layers\.layer_norms\.(\d+)\.", r"encoder.mixes.\1.norm."),
        (r"^encoder_layers\.proj\.", "encoder.projection."),
        (r"^encoder_layers\.layer_norm\.", "encoder.norm."),
        (r"^word_embed\.0\.", "word_embedding."),
        (r"^att_lstm\.", "lstm."),
        (r"^attention\.layers\.0\.encoder_attn\.", "attention."),
        (r"^attention\.proj\.", "attended.linear."),
        (r"^attention\.layer_norm\.", "attended.norm."),
        (r"^att2ctx\.0\.", "attended.gate."),
        (r"^logit\.", "output."),
        *X_LINEAR,
    ]
    known = r"(feature_embedding|encoder|word_embedding|lstm|attention|attended|output)\..*(weight|bias)(_[ih]h)?"
    return rename(state, rules, known=known)
