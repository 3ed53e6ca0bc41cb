"""M2, the Meshed-Memory Transformer: memory slots in the encoder, a decoder that reads every encoder layer.

Paper: Cornia et al. 2020, "Meshed-Memory Transformer for Image Captioning"; code: aimagelab/meshed-memory-transformer,
not opened here. As the released code has it, where that is more than the paper says:
  - features -> linear, ReLU, dropout, norm; words without a scale; no bias in the output layer, which is not tied;
  - each level's attention has its residual connection and norm before the gate, the sum is divided by sqrt(levels), and
    no norm follows;
  - Xavier initialisation of all matrices, zero biases in attentions and gates.
Where paper and release disagree, the paper by default, the release by option (params/m2/models/m2_as_released.yaml):
  - `positions: noise`: the release's sinusoids are overwritten by its initialisation, and stay noise;
  - `memory_init: xavier`: so are the memory slots, which are meant to be normal;
  - `padded_vectors: attended`: its mask of padding hides nothing, so that an image's padding takes part.
Departs: its mask also hides, in float32, a few real vectors whose sum happens to be 0; nothing here does.
Expected: 38.4 M parameters with 2048-d features and 10,201 ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from recap.core.errors import ConfigError
from recap.models.base import Captioner
from recap.models.cache import KeyValueCache
from recap.models.images import Images, InputSpec
from recap.models.level_memory import LevelMemory
from recap.models.state import PER_BEAM, Memory, State
from recap.models.transformer_layers import EncoderLayer, Past
from recap.nn.attention import KeyValue
from recap.nn.dot_product import ProjectedAttention
from recap.nn.fast import Dropout, Linear, PackedIndex, fast
from recap.nn.feed_forward import FeedForward
from recap.nn.masks import causal_mask, key_mask
from recap.nn.positional import sinusoid_table
from recap.nn.residual import Residual
from recap.nn.rows import Rows
from recap.nn.stack import Stack
from recap.papers.m2.layers import MeshedDecoderLayer
from recap.papers.m2.memory_attention import MemoryAttention
from recap.papers.m2.meshed import MeshedGate


@dataclass(frozen=True, kw_only=True)
class M2State(State):
    """The tokens so far, and the keys and values of all levels for each decoder layer, [B, L, H, N, K]."""

    cache: KeyValueCache = field(metadata=PER_BEAM)
    image: tuple[KeyValue, ...]


class M2(Captioner):
    """The Meshed-Memory Transformer.

    Args:
        inputs: width F of the main stream and number V of ids.
        d_model, heads, d_feed_forward, encoder_layers, decoder_layers: sizes.
        memory_slots: per encoder layer.
        max_vectors: only so many vectors of an image are read (released: 50); None: all.
        max_tokens: positions there are, for <bos> and the words of a caption (released: 54).
        positions: sinusoid or noise; noise is drawn once and kept with the weights.
        memory_init: normal or xavier.
        padded_vectors: masked, or attended: images are filled up to `max_vectors` with zeros that no mask hides.
        dropout: on features, feed-forward layers and residual branches.

    Raises:
        ValueError: D is not divisible by the heads, or `padded_vectors` is attended without `max_vectors`.
    """

    def __init__(
        self,
        inputs: InputSpec,
        *,
        d_model: int,
        heads: int,
        d_feed_forward: int,
        encoder_layers: int,
        decoder_layers: int,
        memory_slots: int,
        max_vectors: int | None,
        max_tokens: int,
        positions: str,
        memory_init: str,
        padded_vectors: str,
        dropout: float,
    ) -> None:
        super().__init__()
        if d_model % heads:
            raise ValueError(f"d_model {d_model} is not divisible by {heads} heads")
        if padded_vectors == "attended" and max_vectors is None:
            raise ValueError("padded_vectors: attended needs max_vectors, the number to which images are padded")
        sizes = {"d_model": d_model, "heads": heads, "d_key": d_model // heads, "d_value": d_model // heads}
        residual = partial(Residual, d_model=d_model, norm="post", norm_kind="biased", dropout=dropout)
        feed_forward = partial(
            FeedForward, d_model=d_model, d_hidden=d_feed_forward, activation="relu", dropout=dropout
        )
        self.max_vectors, self.pads = max_vectors, padded_vectors == "attended"
        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_dropout = Dropout(dropout)
        self.feature_norm = nn.LayerNorm(d_model)
        self.encoder = Stack[EncoderLayer](
            EncoderLayer(
                attention=MemoryAttention(**sizes, slots=memory_slots), feed_forward=feed_forward(), residual=residual
            )
            for _ in range(encoder_layers)
        )
        self.word_embedding = nn.Embedding(inputs.vocabulary_size, d_model)
        # Row 0 of the released table is of padding, so that <bos> is at position 1.
        table = sinusoid_table(max_tokens + 1, d_model, torch.float32)
        if positions == "noise":
            nn.init.xavier_uniform_(table)
        self.register_buffer("positions", table[1:].clone(), persistent=positions == "noise")
        self.decoder = Stack[MeshedDecoderLayer](
            MeshedDecoderLayer(
                attention=ProjectedAttention(**sizes),
                cross=ProjectedAttention(**sizes),
                mesh=MeshedGate(d_model=d_model, levels=encoder_layers),
                feed_forward=feed_forward(),
                residual=residual,
            )
            for _ in range(decoder_layers)
        )
        self.output = Linear(d_model, inputs.vocabulary_size, bias=False)
        self._initialise(memory_init)

    def _initialise(self, memory_init: str) -> None:
        """Draw the initial weights; memory slots are drawn where they are made unless `memory_init` is xavier."""
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                if memory_init == "xavier" or "memory_" not in name:
                    nn.init.xavier_uniform_(parameter)
            elif {"attention", "cross", "mesh"} & {*name.split(".")}:
                nn.init.zeros_(parameter)  # their biases; what these modules hold has no other vectors

    def encode(self, images: Images) -> LevelMemory:
        """Images -> what every encoder layer gives; vectors that the mask hides change nothing."""
        values, mask = (x[:, : self.max_vectors] for x in (images.main.values, images.main.mask))
        if self.pads:
            values = pad(
                values.masked_fill(~mask[..., None], 0), (0, 0, 0, cast(int, self.max_vectors) - mask.shape[1])
            )
            mask = torch.ones(values.shape[:2], dtype=torch.bool, device=mask.device)
        x = self.feature_norm(self.feature_dropout(torch.relu(self.feature_embedding(values))))
        rows, attn_mask, levels = Rows(x[:, None]), _if_any_is_hidden(key_mask(mask)), []
        for layer in self.encoder:
            rows = self.run_layer(layer, rows, attn_mask)
            levels.append(rows.values)
        stacked = torch.cat(levels, 1)
        return LevelMemory(stacked[:, -1], mask, stacked)

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        """Tokens [B, C, T] -> hidden [B, C, T, D]."""
        return self._decode(Rows(self._embed(tokens, self._positions(tokens.shape[-1]))), memory).values

    def decode_words(self, tokens: Tensor, token_mask: Tensor, memory: Memory) -> Tensor:
        """As `decode`, of the R tokens that are not padding: [R, D]; padding takes part in attention products only."""
        if not fast():
            return self.decode(tokens, memory)[token_mask]
        index = PackedIndex(token_mask)
        places = torch.arange(tokens.shape[-1], device=tokens.device).expand_as(tokens)
        codes = self._positions(tokens.shape[-1])[index.pack(places)]
        return self._decode(Rows(self._embed(index.pack(tokens), codes), index), memory).values

    def _positions(self, length: int) -> Tensor:
        """Return the codes of the first positions, [length, D]."""
        table = cast(Tensor, self.positions)
        if length > len(table):
            raise ConfigError(f"a caption has {length} tokens, M2 has {len(table)} positions; raise its max_tokens")
        return table[:length]

    def _embed(self, tokens: Tensor, codes: Tensor) -> Tensor:
        """Token ids [...] and the codes of their positions, broadcastable to [..., D] -> [..., D]."""
        return self.word_embedding(tokens) + codes.to(self.word_embedding.weight.dtype)

    def _decode(self, x: Rows, memory: Memory) -> Rows:
        """Run the decoder on all tokens."""
        self_mask, cross_mask = causal_mask(x.shape[2], x.values.device), _if_any_is_hidden(key_mask(memory.mask))
        for layer in self.decoder:
            x = self.run_layer(layer, x, _image_key_value(layer, memory), self_mask, cross_mask)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        return self.output(hidden)

    def attention_modules(self) -> list[nn.Identity]:
        """Return where each decoder layer passes its weights over each level; see `recap.models.attention_maps`."""
        return [layer.cross.weights for layer in self.decoder]

    def start(self, memory: Memory) -> State:
        """Project the keys of all levels once per decoder layer and open an empty cache."""
        cache = KeyValueCache.empty(len(memory.values), len(self.decoder), memory.values.device)
        return M2State(memory, cache=cache, image=tuple(_image_key_value(layer, memory) for layer in self.decoder))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Tokens [B, C] -> log-probabilities [B, C, V], and the state with these tokens in its cache.

        No gradient passes through the cache.
        """
        state = cast(M2State, state)
        cache = state.cache.extended()
        x = Rows(self._embed(tokens[..., None], self._positions(state.position + 1)[-1]))  # [B, C, 1, D]
        self_mask, cross_mask = cache.mask, _if_any_is_hidden(key_mask(state.memory.mask))
        for index, (layer, image) in enumerate(zip(self.decoder, state.image, strict=True)):
            x = layer(x, image, self_mask, cross_mask, Past(cache, index))
        return self.log_probabilities(x.values[:, :, 0]), replace(state, position=state.position + 1, cache=cache)


def _image_key_value(layer: MeshedDecoderLayer, memory: Memory) -> KeyValue:
    """Keys and values of all levels for one decoder layer, [B, L, H, N, K]."""
    return layer.cross.key_value(Rows(cast(LevelMemory, memory).levels))


def _if_any_is_hidden(mask: Tensor) -> Tensor | None:
    """Return the mask, or None if it hides nothing, which saves its use; asking would stall a GPU or cut a graph."""
    asks = mask.device.type == "cpu" and not torch.compiler.is_compiling()
    return None if asks and bool(mask.all()) else mask
