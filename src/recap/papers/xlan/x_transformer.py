"""X-Transformer: X-Linear attention in every place of an encoder-decoder Transformer.

Paper: Pan et al. 2020, "X-Linear Attention Networks for Image Captioning", section 4.2 names it without a description;
realized from the released configuration (JDAI-CV/image-captioning, not opened here): 6+6 layers, D 768, 8 heads,
B' 48 wide in a head. Two streams run side by side: the vectors (regions or tokens) and a global vector g (one per
image, one per token), which is the query of every block. With mix as in `recap.papers.xlan.model.FeatureMix`:

    encoder   g = block(g, x);  x = feed_forward(mix(g, x));  global = norm(W [g_0 .. g_L])
    decoder   y = x + block(g, x, causal);  g' = norm(y + block(norm(y), regions));  x = feed_forward(mix(g', x))
    words     norm(dropout ..) of GLU(W [g_0 .. g_L]), g_0 = A(global) * B(mean of the tokens so far)

A <pad> among the tokens, unless it comes first, is seen by no other token, as in the release (whose <pad> is its end).
Expected: 137.5 M parameters with 2048-d features and 9,488 ids. Torch's initialization; the output layer is not tied.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import celu, glu

from recap.data.vocabulary import PAD
from recap.models.base import Captioner, token_mask
from recap.models.cache import KeyValueCache
from recap.models.images import Images, InputSpec
from recap.models.state import PER_BEAM, GlobalMemory, State, masked_mean
from recap.nn.attention import KeyValue
from recap.nn.fast import Dropout, Linear, PackedIndex, fast
from recap.nn.layers import FeedForward, Residual, Stack, sinusoid_table
from recap.nn.masks import causal_mask, key_mask
from recap.nn.rows import Rows
from recap.papers.xlan.model import CELU_ALPHA, FeatureMix, XLinear, x_linear
from recap.papers.xlan.settings import XTransformerModel

MAX_POSITIONS = 128  # maximum tokens per caption


class Update(nn.Module):
    """x <- feed_forward(mix(g, x)), with a residual and a norm around each."""

    def __init__(self, *, d_model: int, d_feed_forward: int, dropout: float, mix_dropout: float) -> None:
        super().__init__()
        self.mix = FeatureMix(d_model=d_model, dropout=mix_dropout)
        self.feed_forward = FeedForward(d_model=d_model, d_hidden=d_feed_forward, activation="relu", dropout=dropout)
        self.around_feed_forward = Residual(d_model=d_model, norm="post", norm_kind="biased", dropout=dropout)

    def forward(self, g: Tensor, x: Tensor) -> Tensor:
        """[B, C, 1 or N, D] and [B, C, N, D] -> [B, C, N, D]."""
        return self.around_feed_forward(self.mix(g, x), self.feed_forward)


class XEncoderLayer(nn.Module):
    """g <- block(g, x); x <- update(g, x)."""

    def __init__(self, *, block: XLinear, update: Update, dropout: float) -> None:
        super().__init__()
        self.block, self.update, self.dropout = block, update, Dropout(dropout)

    def forward(self, g: Tensor, x: Tensor, attn_mask: Tensor) -> tuple[Tensor, Tensor]:
        """[B, 1, 1, D], [B, 1, N, D] and a mask [B, 1, 1, N] -> new g and x."""
        g = self.dropout(self.block(Rows(g), self.block.key_value(Rows(x)), attn_mask=attn_mask).values)
        return g, self.update(g, x)


class XDecoderLayer(nn.Module):
    """Tokens attend to tokens, then to the image; the last layer has no update of the tokens (`update` None)."""

    def __init__(self, *, d_model: int, words: XLinear, image: XLinear, update: Update | None, dropout: float) -> None:
        super().__init__()
        self.words, self.image, self.update = words, image, update  # of the tokens so far, of the image
        self.words_norm, self.image_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(
        self, g: Rows, x: Rows, *, tokens: KeyValue, self_mask: Tensor, image: KeyValue, cross_mask: Tensor
    ) -> tuple[Rows, Rows]:
        """Rows g and x of T tokens [B, C, T, D] -> new g and x; the last layer returns x as it is.

        `tokens` are keys and values of all tokens so far, from the block `words`, their mask is broadcastable to [B, C,
        T, tokens so far]; `image` are those of the image, from the block `image`, with its mask [B, 1, 1, N].
        """
        y = x.values + self.dropout(self.words(g, tokens, attn_mask=self_mask).values)
        attended = self.image(x.like(self.words_norm(y)), image, attn_mask=cross_mask).values
        g = x.like(self.image_norm(y + self.dropout(attended)))
        return g, x if self.update is None else x.like(self.update(g.values, x.values))


class CeluNorm(nn.Module):
    """norm(CELU(W x)): [..., D] -> [..., D]; A and B of the first global vector."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.linear = Linear(d_model, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        return self.norm(celu(self.linear(x), CELU_ALPHA))


@dataclass(frozen=True, kw_only=True)
class XTransformerState(State[GlobalMemory]):
    """The tokens so far, their sum, and what is projected once per image."""

    cache: KeyValueCache = field(metadata=PER_BEAM)  #: keys and values of the tokens
    token_mask: Tensor = field(metadata=PER_BEAM)  #: [B, C, T], True where a token is not padding
    total: Tensor = field(metadata=PER_BEAM)  #: sum of the embedded tokens, [B, C, D]
    image: tuple[KeyValue, ...]  #: keys and values of the image for each decoder layer
    image_branch: Tensor  #: A(global), [B, D]


class XTransformer(Captioner[GlobalMemory, XTransformerState]):
    """The X-Transformer."""

    positions: Tensor

    def __init__(self, inputs: InputSpec, settings: XTransformerModel) -> None:
        super().__init__()
        d_model, block = settings.d_model, x_linear(settings)
        update = partial(
            Update,
            d_model=d_model,
            d_feed_forward=settings.d_feed_forward,
            dropout=settings.dropout,
            mix_dropout=settings.mix_dropout,
        )
        self.max_vectors, self.d_model = settings.max_vectors, d_model
        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_norm = nn.LayerNorm(d_model)
        self.feature_dropout = Dropout(settings.feature_dropout)
        self.dropout = Dropout(settings.dropout)
        self.encoder = Stack[XEncoderLayer](
            XEncoderLayer(block=block(), update=update(), dropout=settings.dropout)
            for _ in range(settings.encoder_layers)
        )
        self.global_projection = Linear((settings.encoder_layers + 1) * d_model, d_model)
        self.global_norm = nn.LayerNorm(d_model)
        self.word_embedding = nn.Embedding(inputs.vocabulary_size, d_model)
        self.register_buffer("positions", sinusoid_table(MAX_POSITIONS, d_model, torch.float32))
        self.word_norm = nn.LayerNorm(d_model)
        self.word_dropout = Dropout(settings.word_dropout)
        self.image_side, self.word_side = (CeluNorm(d_model) for _ in range(2))
        self.decoder = Stack[XDecoderLayer](
            XDecoderLayer(
                d_model=d_model,
                words=block(),
                image=block(),
                update=update() if index < settings.decoder_layers else None,
                dropout=settings.decoder_dropout,
            )
            for index in range(1, settings.decoder_layers + 1)
        )
        self.read_off = Linear((settings.decoder_layers + 1) * d_model, 2 * d_model)
        self.output_norm = nn.LayerNorm(d_model)
        self.output_dropout = Dropout(settings.output_dropout)
        self.output = Linear(d_model, inputs.vocabulary_size)

    def encode(self, images: Images) -> GlobalMemory:
        """Images -> vectors and global vector; vectors that the mask hides change nothing."""
        features, mask = (x[:, : self.max_vectors] for x in (images.main.values, images.main.mask))
        x = self.feature_dropout(self.feature_norm(celu(self.feature_embedding(features), CELU_ALPHA)))
        g, x, attn_mask = masked_mean(x, mask)[:, None, None], x[:, None], key_mask(mask)
        summaries = [g]
        for layer in self.encoder:
            g, x = layer(g, x, attn_mask)
            summaries.append(g)
        summary = self.global_norm(self.global_projection(torch.cat(summaries, -1)))
        return GlobalMemory(x[:, 0], mask, summary[:, 0, 0])

    def decode(self, tokens: Tensor, memory: GlobalMemory, index: PackedIndex | None = None) -> Tensor:
        """Tokens [B, C, T] -> hidden [B, C, T, D], or packed [R, D]."""
        mask = token_mask(tokens)
        self_mask = causal_mask(tokens.shape[-1], tokens.device) & mask[:, :, None]
        x = self._embed(tokens, 0)
        weights = mask.to(x.dtype)[..., None]
        mean = (x * weights).cumsum(2) / weights.cumsum(2).clamp(min=1)  # of the tokens up to each one
        # g_0 = dropout(A(global) * B(mean of the tokens so far))
        branch = Rows.pack(self.image_side(memory.summary)[:, None, None].expand_as(x), index)
        g = branch.like(self.dropout(branch.values * self.word_side(Rows.pack(mean, index).values)))
        rows, summaries = Rows.pack(x, index), [g.values]
        for layer in self.decoder:
            image, own = layer.image.key_value(Rows(memory.values[:, None])), layer.words.key_value(rows)
            g, rows = layer(g, rows, tokens=own, self_mask=self_mask, image=image, cross_mask=key_mask(memory.mask))
            summaries.append(g.values)
        return self._readout(summaries)

    def decode_words(self, tokens: Tensor, token_mask: Tensor, memory: GlobalMemory) -> Tensor:
        """As `decode`, of the R tokens that are not padding: [R, D]; padding takes part in pairs of tokens only."""
        return (
            self.decode(tokens, memory, PackedIndex(token_mask)) if fast() else self.decode(tokens, memory)[token_mask]
        )

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        return self.output(hidden)

    def attention_modules(self) -> list[nn.Identity]:
        """Return where the image blocks pass their weights; see `recap.models.explained`."""
        return [layer.image.weights for layer in self.decoder]

    def start(self, memory: GlobalMemory) -> XTransformerState:
        """Project the image's keys once per layer and open an empty cache."""
        images, device = len(memory.values), memory.values.device
        return XTransformerState(
            memory,
            cache=KeyValueCache.empty(images, len(self.decoder), device),
            token_mask=torch.ones(images, 1, 0, dtype=torch.bool, device=device),
            total=memory.values.new_zeros(images, 1, self.d_model),
            image=tuple(layer.image.key_value(Rows(memory.values[:, None])) for layer in self.decoder),
            image_branch=self.image_side(memory.summary),
        )

    def step(self, tokens: Tensor, state: XTransformerState) -> tuple[Tensor, XTransformerState]:
        """Tokens [B, C] -> log-probabilities [B, C, V], and the new state; no gradient passes through its cache."""
        cache = state.cache.extended()
        new = token_mask(tokens[..., None]) if state.position == 0 else (tokens != PAD)[..., None]  # [B, C, 1]
        mask = torch.cat([state.token_mask, new], 2)  # [B, C, tokens so far]
        x = Rows(self._embed(tokens[..., None], state.position))  # [B, C, 1, D]
        total = state.total + (x.values * new[..., None])[:, :, 0]
        mean = total / mask.sum(-1, keepdim=True).clamp(min=1)
        g = Rows(self.dropout(state.image_branch[:, None, None] * self.word_side(mean[:, :, None])))
        summaries, self_mask, cross_mask = [g.values], key_mask(mask), key_mask(state.memory.mask)
        for index, layer in enumerate(self.decoder):
            cache.append(index, layer.words.key_value(x))
            own = cache.per_beam(index)  # pairs are costly here, so that a beam's copies pay
            g, x = layer(g, x, tokens=own, self_mask=self_mask, image=state.image[index], cross_mask=cross_mask)
            summaries.append(g.values)
        log_probabilities = self.log_probabilities(self._readout(summaries)[:, :, 0])
        return log_probabilities, replace(state, position=state.position + 1, cache=cache, token_mask=mask, total=total)

    def _embed(self, tokens: Tensor, position: int) -> Tensor:
        """Tokens [B, C, T] at positions from `position` on -> [B, C, T, D]."""
        embedded = self.word_embedding(tokens) * math.sqrt(self.d_model)
        positions = self.positions[position : position + tokens.shape[-1]].to(embedded.dtype)
        return self.word_dropout(self.word_norm(embedded + positions))

    def _readout(self, summaries: list[Tensor]) -> Tensor:
        """All global vectors of a token -> what the output layer reads, [..., D]."""
        return self.output_dropout(self.output_norm(glu(self.read_off(torch.cat(summaries, -1)), -1)))
