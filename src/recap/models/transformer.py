"""Encoder-decoder Transformer for captioning: the baseline of four of the five papers.

Paper: Vaswani et al. 2017, "Attention Is All You Need", on image features as in Sharma et al. 2018.
Realised as the papers' code bases have it (Annotated Transformer lineage): features -> linear, ReLU, dropout 0.5, no
positions on the visual side; word embedding times sqrt(D) plus sinusoids; untied output layer; Xavier initialisation.
Departs: norms use the biased variance (`layer_norm: unbiased` gives the code's form); 6+6 pre-norm layers by default,
3 and post-norm by option; with biases everywhere.
Expected: 54.9 M parameters with 2048-d features, D 512, 6+6 layers and COCO's 9,487 words + <unk>.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypedDict, cast

import torch
from torch import Tensor, nn

from recap.layers.attention import Attention, MultiHeadAttention
from recap.layers.fast.linear import Linear
from recap.layers.fast.packing import Words
from recap.layers.feed_forward import FeedForward
from recap.layers.positional import grid_table, sinusoid_table
from recap.layers.residual import NORMS, Residual
from recap.models.base import Captioner, token_mask
from recap.models.images import Images, InputSpec
from recap.models.state import Memory, State
from recap.models.transformer_layers import DecoderLayer, EncoderLayer, of_layer

MakeAttention = Callable[[str], Attention]  # builds the attention of a place: encoder, decoder or cross
LONGEST = 512  # words a caption may have


class TransformerSizes(TypedDict):
    """What a variant of the Transformer hands on as it came; see `Transformer`."""

    d_feed_forward: int
    encoder_layers: int
    decoder_layers: int
    norm: str
    layer_norm: str
    dropout: float
    feature_dropout: float
    visual_positions: str
    feed_forward_activation: str


class Transformer(Captioner):
    """Encoder-decoder Transformer.

    Args:
        inputs: width F of the main stream and number V of ids.
        d_model, heads, d_feed_forward, encoder_layers, decoder_layers: sizes.
        norm: "pre" (then each stack ends with a norm) or "post".
        layer_norm: "biased" (torch) or "unbiased" (Annotated Transformer).
        dropout: residual, embedding and feed-forward dropout.
        feature_dropout: after the feature projection.
        visual_positions: "none", or "grid": fixed row and column codes for vectors that are the cells of a square grid.
        feed_forward_activation: none, relu or gelu.
        make_attention: builds an attention for a place ("encoder", "decoder", "cross").
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
        norm: str,
        layer_norm: str,
        dropout: float,
        feature_dropout: float,
        visual_positions: str,
        feed_forward_activation: str,
        make_attention: MakeAttention | None = None,
    ) -> None:
        super().__init__()
        make = make_attention or (lambda place: MultiHeadAttention(d_model=d_model, heads=heads))

        def residual() -> Residual:
            return Residual(d_model=d_model, norm=norm, norm_kind=layer_norm, dropout=dropout)

        def feed_forward() -> FeedForward:
            return FeedForward(
                d_model=d_model, d_hidden=d_feed_forward, activation=feed_forward_activation, dropout=dropout
            )

        def final_norm() -> nn.Module:
            return NORMS[layer_norm](d_model) if norm == "pre" else nn.Identity()

        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_dropout = nn.Dropout(feature_dropout)
        self.visual_positions = visual_positions
        self.encoder = nn.ModuleList(
            EncoderLayer(attention=make("encoder"), feed_forward=feed_forward(), residual=residual)
            for _ in range(encoder_layers)
        )
        self.encoder_norm = final_norm()
        self.word_embedding = nn.Embedding(inputs.vocabulary_size, d_model)
        self.register_buffer("positions", sinusoid_table(LONGEST, d_model, torch.float32), persistent=False)
        self.word_dropout = nn.Dropout(dropout)
        self.decoder = nn.ModuleList(
            DecoderLayer(attention=make("decoder"), cross=make("cross"), feed_forward=feed_forward(), residual=residual)
            for _ in range(decoder_layers)
        )
        self.decoder_norm = final_norm()
        self.output = Linear(d_model, inputs.vocabulary_size)
        self.counts_masks = any(isinstance(part, Attention) and part.counts_masks for part in self.modules())
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def encode(self, images: Images) -> Memory:
        """Images -> Memory; vectors that the mask hides change nothing."""
        values, mask = images.main.values, images.main.mask
        x = torch.relu(self.feature_embedding(values))
        if self.visual_positions == "grid":
            x = x + _grid_positions(x)
        x = self.feature_dropout(x)[:, None]  # [B, 1, N, D]
        visible = self._hiding(mask)
        for layer in self.encoder:
            x = self.run_layer(layer, x, visible)
        return Memory(self.encoder_norm(x)[:, 0], mask)

    def _embed(self, tokens: Tensor, places: Tensor) -> Tensor:
        """Word ids [...] and their places in the caption [...] -> [..., D]."""
        words = self.word_embedding(tokens)
        table = cast(Tensor, self.positions).to(words.dtype)
        return self.word_dropout(words * math.sqrt(words.shape[-1]) + table[places])

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        """Tokens [B, C, T] -> hidden [B, C, T, D]."""
        return self._decode_padded(tokens, token_mask(tokens), memory)

    def decode_words(self, tokens: Tensor, real: Tensor, memory: Memory) -> Tensor:
        """As `decode`, of the R real words alone: [R, D]; padding takes part in the attention's products only."""
        if not all(layer.packs for layer in self._decoder_layers()):
            return self._decode_padded(tokens, real, memory)[real]
        words = Words(real)
        places = torch.arange(tokens.shape[-1], device=tokens.device).expand_as(tokens)
        return self._decode(self._embed(words.pack(tokens), words.pack(places)), memory, words=words)

    def _decode_padded(self, tokens: Tensor, real: Tensor | None, memory: Memory) -> Tensor:
        """As `decode`; `real` [B, C, T] is True where a row is a word, None where no row is to be told apart."""
        places = torch.arange(tokens.shape[-1], device=tokens.device)
        return self._decode(self._embed(tokens, places), memory, real=real)

    def _decode(self, x: Tensor, memory: Memory, *, words: Words | None = None, real: Tensor | None = None) -> Tensor:
        """Run the decoder on [B, C, T, D], or on packed [R, D]."""
        visible = self._hiding(memory.mask)
        for layer in self._decoder_layers():
            x = self.run_layer(layer, x, layer.cross.keys(memory.values[:, None]), visible, words, real)
        return self.decoder_norm(x)

    def _hiding(self, mask: Tensor) -> Tensor | None:
        """Return the mask if anything may depend on it.

        Asking whether it hides something would stall a GPU, where masks cost little, or cut a graph.
        """
        asks = mask.device.type == "cpu" and not torch.compiler.is_compiling() and not self.counts_masks
        return None if asks and bool(mask.all()) else mask

    def _decoder_layers(self) -> list[DecoderLayer]:
        return cast(list[DecoderLayer], list(self.decoder))

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        return self.output(hidden)

    def start(self, memory: Memory) -> State:
        """Project the image's keys once a layer and open empty word caches."""
        images = memory.values.shape[0]
        lineage = torch.zeros(images, 1, 0, dtype=torch.bool, device=memory.values.device)
        state = State(memory, per_beam={"lineage": lineage})
        for index, layer in enumerate(self._decoder_layers()):
            per_beam, per_image = layer.start(memory)
            state.per_beam |= {f"{index}/{name}": value for name, value in per_beam.items()}
            state.per_image |= {f"{index}/{name}": value for name, value in per_image.items()}
        return state

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Tokens [B, C] -> log-probabilities [B, C, V], and the state with this word in its caches.

        The caches are written in place (see `DecoderLayer`), so a step has no gradient to give.
        """
        images, beams = tokens.shape
        before = state.per_beam["lineage"]
        own = torch.eye(beams, dtype=torch.bool, device=tokens.device).expand(images, -1, -1)
        lineage = torch.cat([before, own], -1)  # [B, C, S]
        state = state.writing(before.shape[-1], lineage.shape[-1])
        place = torch.tensor(state.position, device=tokens.device)
        x, visible = self._embed(tokens[..., None], place), self._hiding(state.memory.mask)  # [B, C, 1, D]
        moved: dict[str, Tensor] = {"lineage": lineage}
        kept: dict[str, Tensor] = {}
        for index, layer in enumerate(self._decoder_layers()):
            per_beam, per_image = of_layer(index, state.per_beam), of_layer(index, state.per_image)
            x = layer.step(x, per_beam, per_image, visible, lineage)
            moved |= {f"{index}/{name}": value for name, value in per_beam.items()}
            kept |= {f"{index}/{name}": value for name, value in per_image.items()}
        log_probabilities = self.log_probabilities(self.decoder_norm(x[:, :, 0]))
        return log_probabilities, State(state.memory, state.position + 1, moved, kept, state.written)


def _grid_positions(x: Tensor) -> Tensor:
    """Return the codes [N, D] of the cells that x [B, N, D] holds."""
    side = math.isqrt(x.shape[1])
    if side * side != x.shape[1]:
        raise ValueError(f"grid positions need the cells of a square grid, but an image has {x.shape[1]} vectors")
    return grid_table(side, x.shape[2]).to(x)
