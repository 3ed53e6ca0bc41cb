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

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from recap.models.images import Images, InputSpec
from recap.models.level_memory import LevelMemory
from recap.models.transformer_decoder import TransformerDecoder
from recap.models.transformer_layers import EncoderLayer
from recap.nn.dot_product import ProjectedAttention
from recap.nn.fast import Dropout, Linear
from recap.nn.feed_forward import FeedForward
from recap.nn.masks import key_mask, needed
from recap.nn.positional import sinusoid_table
from recap.nn.residual import Residual
from recap.nn.rows import Rows
from recap.nn.stack import Stack
from recap.papers.m2.layers import MeshedDecoderLayer
from recap.papers.m2.memory_attention import MemoryAttention
from recap.papers.m2.meshed import MeshedGate


class M2(TransformerDecoder[LevelMemory]):
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
        self.max_vectors = max_vectors
        self.padded_to = max_vectors if padded_vectors == "attended" else None
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
        self.decoder_norm = nn.Identity()
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
        if self.padded_to is not None:
            values = pad(values.masked_fill(~mask[..., None], 0), (0, 0, 0, self.padded_to - mask.shape[1]))
            mask = torch.ones(values.shape[:2], dtype=torch.bool, device=mask.device)
        x = self.feature_norm(self.feature_dropout(torch.relu(self.feature_embedding(values))))
        rows, attn_mask, levels = Rows(x[:, None]), needed(key_mask(mask)), []
        for layer in self.encoder:
            rows = self.run_layer(layer, rows, attn_mask)
            levels.append(rows.values)
        stacked = torch.cat(levels, 1)
        return LevelMemory(stacked[:, -1], mask, stacked)

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Token ids [...] and their positions -> [..., D]."""
        embedded = self.word_embedding(tokens)
        return embedded + self.positions[positions].to(embedded.dtype)

    def attention_modules(self) -> list[nn.Identity]:
        """Return where each decoder layer passes its weights over each level; see `recap.models.attention_maps`."""
        return [layer.cross.weights for layer in self.decoder]
