"""X-Transformer: X-Linear attention in every place of an encoder-decoder Transformer.

Paper: Pan et al. 2020, "X-Linear Attention Networks for Image Captioning", section 4.2 names it without a description;
realised from the released configuration (JDAI-CV/image-captioning, not opened here): 6+6 layers, D 768, 8 heads,
B' 48 wide in a head. Two streams run side by side: the vectors (regions or words) and a global vector g (one an image,
and one a word), which is the query of every block. With mix as in `recap.layers.x_linear.FeatureMix`:

    encoder   g = block(g, x);  x = feed_forward(mix(g, x));  global = norm(W [g_0 .. g_L])
    decoder   y = x + block(g, x, causal);  g' = norm(y + block(norm(y), regions));  x = feed_forward(mix(g', x))
    words     norm(dropout ..) of GLU(W [g_0 .. g_L]), g_0 = A(global) * B(mean of the words so far)

A <pad> among the words, unless it comes first, is seen by no other word, as in the release (whose <pad> is its end).
Expected: 137.5 M parameters with 2048-d features and 9,488 ids. Torch's initialisation; the output layer is not tied.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import celu, glu

from recap.data.vocabulary.special import PAD
from recap.layers.fast.dropout import Dropout
from recap.layers.fast.linear import Linear
from recap.layers.fast.packing import Words, pack
from recap.layers.positional import sinusoid_table
from recap.layers.x_linear import XLinear
from recap.models.base import Captioner, token_mask
from recap.models.global_memory import GlobalMemory, masked_mean
from recap.models.images import Images, InputSpec
from recap.models.official_names import X_LINEAR, rename
from recap.models.state import Memory, State
from recap.models.x_transformer_layers import Update, XDecoderLayer, XEncoderLayer, causal, growing_mean

LONGEST = 128  # words a caption may have
CELU_SCALE = 1.3  # of region embedding and of the first global vectors
LAYER_RULES = [
    (r"^((?:encoder|decoder)\.\d+\.)bifeat_emb\.0\.", r"\1update.mix.linear."),
    (r"^((?:encoder|decoder)\.\d+\.)layer_norm(?:_x)?\.", r"\1update.mix.norm."),
    (r"^((?:encoder|decoder)\.\d+\.)ff_layer\.fc1\.", r"\1update.feed_forward.inner."),
    (r"^((?:encoder|decoder)\.\d+\.)ff_layer\.fc2\.", r"\1update.feed_forward.outer."),
    (r"^((?:encoder|decoder)\.\d+\.)ff_layer\.layer_norms\.", r"\1update.around_feed_forward.norm."),
    (r"^(encoder\.\d+\.)encoder_attn\.", r"\1block."),
    (r"^(decoder\.\d+\.)word_attn\.", r"\1words."),
    (r"^(decoder\.\d+\.)cross_att\.", r"\1image."),
    (r"^(decoder\.\d+\.)layer_norm_cross\.", r"\1words_norm."),
    (r"^(decoder\.\d+\.)layer_norm_gx\.", r"\1image_norm."),
]
POSITIONS = re.compile(r"position|(^|\.)pe$")
KNOWN = (
    r"(feature_embedding|feature_norm|global_projection|global_norm|word_embedding|word_norm|read_off|output_norm|output"
    r"|(image|word)_side\.(linear|norm)|encoder\.\d+\.(block|update)\..+|decoder\.\d+\.(words|image|update)\..+"
    r"|decoder\.\d+\.(words|image)_norm)\.(weight|bias)"
)


class CeluNorm(nn.Module):
    """norm(CELU(W x)): [..., D] -> [..., D]."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.linear = Linear(d_model, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        return self.norm(celu(self.linear(x), CELU_SCALE))


class XTransformer(Captioner):
    """The X-Transformer.

    Args:
        inputs: width F of the main stream and number V of ids.
        d_model, heads, d_joint, d_feed_forward, encoder_layers, decoder_layers: sizes.
        activation, alpha: of the blocks; see `recap.layers.x_linear`.
        max_vectors: only so many vectors of an image are read (released: 50); None: all.
        feature_dropout: on regions; dropout: on block outputs of the encoder, g_0, and in feed-forward layers;
        decoder_dropout: on block outputs of the decoder; joint_dropout: on B'; mix_dropout: on the updates;
        word_dropout: on words; output_dropout: where words are read off.
    """

    def __init__(
        self,
        inputs: InputSpec,
        *,
        d_model: int,
        heads: int,
        d_joint: int,
        d_feed_forward: int,
        encoder_layers: int,
        decoder_layers: int,
        activation: str,
        alpha: float,
        max_vectors: int | None,
        feature_dropout: float,
        dropout: float,
        decoder_dropout: float,
        joint_dropout: float,
        mix_dropout: float,
        word_dropout: float,
        output_dropout: float,
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
        update = partial(
            Update, d_model=d_model, d_feed_forward=d_feed_forward, dropout=dropout, mix_dropout=mix_dropout
        )
        self.max_vectors = max_vectors
        self.d_model = d_model
        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_norm = nn.LayerNorm(d_model)
        self.feature_dropout = Dropout(feature_dropout)
        self.dropout = Dropout(dropout)
        self.encoder = nn.ModuleList(
            XEncoderLayer(block=block(), update=update(), dropout=dropout) for _ in range(encoder_layers)
        )
        self.global_projection = Linear((encoder_layers + 1) * d_model, d_model)
        self.global_norm = nn.LayerNorm(d_model)
        self.word_embedding = nn.Embedding(inputs.vocabulary_size, d_model)
        self.register_buffer("positions", sinusoid_table(LONGEST, d_model, torch.float32))
        self.word_norm = nn.LayerNorm(d_model)
        self.word_dropout = Dropout(word_dropout)
        self.image_side, self.word_side = (CeluNorm(d_model) for _ in range(2))
        self.decoder = nn.ModuleList(
            XDecoderLayer(
                d_model=d_model,
                words=block(),
                image=block(),
                update=update() if index < decoder_layers - 1 else None,
                dropout=decoder_dropout,
            )
            for index in range(decoder_layers)
        )
        self.read_off = Linear((decoder_layers + 1) * d_model, 2 * d_model)
        self.output_norm = nn.LayerNorm(d_model)
        self.output_dropout = Dropout(output_dropout)
        self.output = Linear(d_model, inputs.vocabulary_size)

    def encode(self, images: Images) -> GlobalMemory:
        """Images -> vectors and global vector; vectors that the mask hides change nothing."""
        features, mask = (x[:, : self.max_vectors] for x in (images.main.values, images.main.mask))
        x = self.feature_norm(celu(self.feature_embedding(features), CELU_SCALE))
        x = self.feature_dropout(x)
        g, x, visible = masked_mean(x, mask)[:, None, None], x[:, None], mask[:, None, None]
        summaries = [g]
        for layer in self.encoder:
            g, x = layer(g, x, visible)
            summaries.append(g)
        summary = self.global_norm(self.global_projection(torch.cat(summaries, -1)))
        return GlobalMemory(x[:, 0], mask, summary[:, 0, 0])

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        """Tokens [B, C, T] -> hidden [B, C, T, D]."""
        return self._decode(tokens, memory, None)

    def decode_words(self, tokens: Tensor, real: Tensor, memory: Memory) -> Tensor:
        """As `decode`, of the R real words alone: [R, D]; padding takes part in the pairs of words only."""
        return self._decode(tokens, memory, Words(real))

    def _decode(self, tokens: Tensor, memory: Memory, words: Words | None) -> Tensor:
        """Run the decoder on [B, C, T, D], or on packed [R, D]."""
        real = self._real(tokens, 0)
        visible, seen = causal(real), memory.mask[:, None, None]
        x = self._embed(tokens, 0)
        image = self._image_side(memory)[:, None, None].expand_as(x)
        g = self._first_global(pack(image, words), pack(growing_mean(x, real), words))
        x, summaries = pack(x, words), [g]
        for layer in cast(list[XDecoderLayer], self.decoder):
            keys, own = layer.image.keys(memory.values[:, None]), layer.words.keys(x, words)
            g, x = layer(g, x, own=own, visible=visible, image=keys, seen=seen, words=words)
            summaries.append(g)
        return self._read_off(summaries)

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        return self.output(hidden)

    def attention_modules(self) -> list[nn.Identity]:
        """Return where the image blocks pass their weights; see `recap.models.attention_maps`."""
        return [layer.image.weights for layer in cast(list[XDecoderLayer], self.decoder)]

    def start(self, memory: Memory) -> State:
        """Project the image's keys once a layer and open empty word caches."""
        nothing = memory.values[:, None, :0]
        state = State(memory, per_image={"image": self._image_side(memory)})
        state.per_beam = {
            "total": memory.values.new_zeros(len(nothing), 1, self.d_model),
            "real": torch.ones(nothing.shape[:3], dtype=torch.bool, device=nothing.device),
        }
        for index, layer in enumerate(cast(list[XDecoderLayer], self.decoder)):
            state.per_image |= _named(f"{index}.image", layer.image.keys(memory.values[:, None]))
            state.per_beam |= _named(f"{index}.words", layer.words.keys(nothing))
        return state

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Tokens [B, C] -> log-probabilities [B, C, V], and the state with this word in its caches."""
        now = self._real(tokens[..., None], state.position)  # [B, C, 1]
        real = torch.cat([state.per_beam["real"], now], 2)  # [B, C, words so far]
        x = self._embed(tokens[..., None], state.position)  # [B, C, 1, D]
        total = state.per_beam["total"] + (x * now[..., None])[:, :, 0]
        mean = total / real.sum(-1, keepdim=True).clamp(min=1)
        g = self._first_global(state.per_image["image"][:, None, None], mean[:, :, None])
        moved, summaries = {"total": total, "real": real}, [g]
        visible, seen = real[:, :, None], state.memory.mask[:, None, None]
        for index, layer in enumerate(cast(list[XDecoderLayer], self.decoder)):
            past = _named_pair(f"{index}.words", state.per_beam)
            keys, values = (torch.cat(pair, 3) for pair in zip(past, layer.words.keys(x), strict=True))
            own = (keys, values)
            moved |= _named(f"{index}.words", own)
            image = _named_pair(f"{index}.image", state.per_image)
            g, x = layer(g, x, own=own, visible=visible, image=image, seen=seen)
            summaries.append(g)
        log_probabilities = self.log_probabilities(self._read_off(summaries)[:, :, 0])
        return log_probabilities, State(state.memory, state.position + 1, moved, state.per_image)

    def _real(self, tokens: Tensor, position: int) -> Tensor:
        """Return where tokens [B, C, T], the first of them at `position`, are words: all but padding, and the first."""
        return token_mask(tokens) if position == 0 else tokens != PAD

    def _embed(self, tokens: Tensor, position: int) -> Tensor:
        """Tokens [B, C, T] at positions from `position` on -> [B, C, T, D]."""
        words = self.word_embedding(tokens) * math.sqrt(self.d_model)
        places = cast(Tensor, self.positions)[position : position + tokens.shape[-1]].to(words.dtype)
        return self.word_dropout(self.word_norm(words + places))

    def _image_side(self, memory: Memory) -> Tensor:
        """A(global), [B, D]."""
        return self.image_side(cast(GlobalMemory, memory).summary)

    def _first_global(self, image: Tensor, mean: Tensor) -> Tensor:
        """g_0 of each word: the image's share and the mean of the words so far, both [..., D] -> [..., D]."""
        return self.dropout(image * self.word_side(mean))

    def _read_off(self, summaries: list[Tensor]) -> Tensor:
        """All global vectors of a word -> what the output layer reads, [B, C, T, D]."""
        return self.output_dropout(self.output_norm(glu(self.read_off(torch.cat(summaries, -1)), -1)))


def _named(name: str, pair: tuple[Tensor, ...]) -> dict[str, Tensor]:
    return {f"{name}.keys": pair[0], f"{name}.values": pair[1]}


def _named_pair(name: str, tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    return tensors[f"{name}.keys"], tensors[f"{name}.values"]


def rename_official(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map the released X-Transformer's parameter names to ours (docs/parameters.md).

    Its table of positions is cut to our length; where the state has none, the table is computed.

    Raises:
        ConfigError: a name is none of the released model's.
    """
    own = {name: value for name, value in state.items() if not POSITIONS.search(name)}
    tables = [value for name, value in state.items() if POSITIONS.search(name)]
    rules = [
        (r"^att_embed\.0\.", "feature_embedding."),
        (r"^att_embed\.2\.", "feature_norm."),
        (r"^encoder\.proj_norm\.0\.", "global_projection."),
        (r"^encoder\.proj_norm\.1\.", "global_norm."),
        (r"^encoder\.(?:layers\.)?(\d+)\.", r"encoder.\1."),
        (r"^decoder\.(?:layers\.)?(\d+)\.", r"decoder.\1."),
        *LAYER_RULES,
        (r"^decoder\.embed_tokens\.", "word_embedding."),
        (r"^decoder\.layer_norm_word\.", "word_norm."),
        (r"^decoder\.wbil1\.0\.", "image_side.linear."),
        (r"^decoder\.wbil1\.2\.", "image_side.norm."),
        (r"^decoder\.wbil2\.0\.", "word_side.linear."),
        (r"^decoder\.wbil2\.2\.", "word_side.norm."),
        (r"^decoder\.proj_norm\.0\.", "read_off."),
        (r"^decoder\.proj_norm\.2\.", "output_norm."),
        (r"^decoder\.generator\.", "output."),
        *X_LINEAR,
    ]
    renamed = rename(own, rules, known=KNOWN)
    width = renamed["word_embedding.weight"].shape[1]
    table = tables[0].reshape(-1, width) if tables else sinusoid_table(LONGEST, width, torch.float32)
    renamed["positions"] = table[:LONGEST]
    return renamed
