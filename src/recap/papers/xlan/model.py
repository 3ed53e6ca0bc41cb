"""X-LAN, X-Linear attention in encoder and decoder around an LSTM, and the X-Transformer.

Paper: Pan et al. 2020, "X-Linear Attention Networks for Image Captioning"; code:
JDAI-CV/image-captioning, known from its released weights and from reports. With s the activation
and * the elementwise product, for each of H heads (the paper prints one):

    B_i  = s(W_k k_i) * s(W_q^k Q)                        query with key       (2)
    B'_i = ReLU(W_B^k B_i),  b_i = softmax_i(W_b B'_i)    spatial attention    (3)
    c    = sigmoid(W_e mean_i(B'_i))                      channel attention    (4-5)
    out  = c * sum_i b_i (s(W_v v_i) * s(W_q^v Q))        query with value     (6)

s is ReLU, or an exponential unit (Eq. 9: then the Taylor series holds every order of interaction).
The query of Eq. 6 does not depend on i and is taken out of the sum. Conventional attention (Eq. 1)
is `AdditiveAttention` of `recap.nn`. As the released model has it, where that differs from the
paper:
  - 8 heads (D_B = 8 x 128, D_c = 8 x 64) that share W_B^k, W_b and W_e; CELU(1.3); every projection
    is group-normalized, one group per head; keys and values are updated as one;
  - a norm after W_G; the LSTM reads [word ; global + context], 2 D wide, not four vectors side by
    side;
  - the attended vector passes through norm(W [h ; v]) before the GLU.
The rows of Table 3: `encoder_layers` 0 to 4, `decoder_attention` conventional or x_linear,
`activation` relu or celu.
Departs: with `decoder_attention: conventional` (not released) only the attention itself is
exchanged, for Eq. 1.
Expected: 75.2 M parameters with 2048-d features and 9,488 ids. Torch's initialization; the output
layer is not tied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import celu, glu, linear

from recap.data.vocabulary import PAD
from recap.models.base import Captioner, token_mask
from recap.models.images import Images, InputSpec
from recap.models.recurrent import ContextCaptioner, ContextState
from recap.models.state import PER_BEAM, GlobalMemory, KeyValueCache, State, masked_mean
from recap.models.transformer import LayerCache, post_norm_parts
from recap.nn.attention import AdditiveAttention, Attention, KeyValue
from recap.nn.fast import Linear, as_autocast, fast, multiplied, product
from recap.nn.layers import (
    ACTIVATIONS,
    Dropout,
    LSTMCell,
    Stack,
    dropout_mask,
    sinusoid_table,
)
from recap.nn.rows import (
    MASKED_SCORE,
    PackedIndex,
    Rows,
    captions_to_queries,
    causal_mask,
    key_mask,
    keys_for_queries,
    mask_for_queries,
    queries_to_captions,
)
from recap.papers.xlan.settings import XLanModel, XLinearSizes, XTransformerModel

CELU_ALPHA = 1.3  # scale of the exponential units, as released


class Projection(nn.Module):
    """s(W x) of Eq. 2 and 6, then a group norm with one group per head: [..., D] -> [..., D]."""

    def __init__(self, settings: XLinearSizes) -> None:
        super().__init__()
        self.linear = Linear(settings.d_model, settings.d_model)
        if settings.activation == "relu":
            self.activation: nn.Module = nn.ReLU()
        else:
            self.activation = ACTIVATIONS[settings.activation](settings.alpha)
        self.norm = nn.GroupNorm(settings.heads, settings.d_model)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]; every vector is normalized by itself."""
        return self.norm(self.activation(self.linear(x)).flatten(0, -2)).view_as(x)


def plain_bilinear_pool(
    q: Tensor,
    k: Tensor,
    weight: Tensor,
    bias: Tensor,
    spatial: Tensor,
    mean_weights: Tensor,
    *,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Eq. 2-4: score B' of every query and key, w . B', and average it over the keys of each query.

    q [B, H, R, K] and k [B, H, N, K] as projected, W_B^k [J, K], its bias and w [J], weights of the
    mean [B, 1, R or 1, N] -> scores [B, H, R, N] and means [B, H, R, J]; dropout is on B'.
    `bilinear_pool` is as this, and fast.
    """
    joint = torch.relu(linear(q[:, :, :, None] * k[:, :, None], weight, bias))  # [B, H, R, N, J]
    joint = Dropout(dropout)(joint)
    return joint @ spatial, (joint * mean_weights[..., None]).sum(3)


class XLinear(Attention):
    """One X-Linear attention block (Eq. 2-6):
    D is the paper's D_B, H * d_joint its D_c; dropout is on B'.

    The spatial attention weights pass through the identity `weights`, [B, C, H, T, N]
    (`recap.models.explained`).
    """

    def __init__(self, settings: XLinearSizes) -> None:
        super().__init__()
        self.heads = settings.heads
        width, d_joint = settings.d_model // settings.heads, settings.d_joint
        self.query_key = Projection(settings)  # W_q^k
        self.key = Projection(settings)  # W_k
        self.query_value = Projection(settings)  # W_q^v
        self.value = Projection(settings)  # W_v
        self.joint = nn.Linear(width, d_joint)  # W_B^k
        self.spatial = nn.Linear(d_joint, 1)  # W_b
        self.channel = nn.Linear(d_joint, width)  # W_e
        self.dropout = Dropout(settings.joint_dropout)
        self.weights = nn.Identity()

    def summarized(self, g: Tensor, x: Tensor, attn_mask: Tensor) -> Tensor:
        """Attend with a vector of each image to its others: [B, 1, 1, D], [B, 1, N, D] -> as g."""
        return self(Rows(g), self.key_value(Rows(x)), attn_mask=attn_mask).values

    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Attend, as `Attention.forward`."""
        captions = query.shape[1]
        k, v, shared = keys_for_queries(key_value, captions)  # [B', H, N, K]
        if attn_mask is None:
            attn_mask = k.new_ones(1, 1, 1, k.shape[2], dtype=torch.bool)
        # [B', 1, R or 1, N]
        mask = mask_for_queries(attn_mask, query.shape, shared).expand(len(k), -1, -1, -1)
        mean_weights = mask.to(v.dtype)
        mean_weights = mean_weights / mean_weights.sum(-1, keepdim=True).clamp(min=1)
        heads = query.map(self.query_key).split_heads(self.heads)
        q = captions_to_queries(heads, shared)  # [B', H, R, K]
        pooling = self.joint.weight, self.joint.bias, self.spatial.weight[0], mean_weights
        dropout = self.dropout.p if self.training else 0.0
        scores, mean = bilinear_pool(q, k, *pooling, dropout=dropout)  # Eq. 2-4
        scores = scores + self.spatial.bias  # [B', H, R, N]; the mean is [B', H, R, J]
        spatial_weights = scores.masked_fill(~mask, MASKED_SCORE).softmax(-1)  # Eq. 3
        q = captions_to_queries(query.map(self.query_value).split_heads(self.heads), shared)
        attended = q * (spatial_weights.to(v.dtype) @ v) * self.channel(mean).sigmoid()  # Eq. 5-6
        self.weights(queries_to_captions(spatial_weights, captions, shared))
        return query.merge_heads(queries_to_captions(attended, captions, shared))


class FeatureMix(nn.Module):
    """Eq. 8, keys and values as one:
    mix an attended vector g into the vectors x_i that it was attended from.

    x_i <- norm(dropout(ReLU(W [g ; x_i])) + x_i)
    """

    def __init__(self, settings: XLinearSizes) -> None:
        super().__init__()
        self.linear = Linear(2 * settings.d_model, settings.d_model)
        self.dropout = Dropout(settings.mix_dropout)
        self.norm = nn.LayerNorm(settings.d_model)

    def forward(self, g: Tensor, x: Tensor) -> Tensor:
        """[B, C, 1 or N, D] and [B, C, N, D], or both packed -> as x.

        A g shared by all x is multiplied once.
        """
        if g.shape == x.shape:
            both = self.linear(torch.cat([g, x], -1))
        else:
            of_g, of_x = self.linear.weight.chunk(2, 1)
            both = product(g, of_g, self.linear.bias) + product(x, of_x, None)
        return self.norm(self.dropout(both.relu_()) + x)


class XLanEncoder(nn.Module):
    """Stacked X-Linear blocks over the regions, queried by the last output (Eq. 7-8, 10)."""

    def __init__(self, settings: XLanModel) -> None:
        super().__init__()
        d_model, blocks = settings.d_model, settings.encoder_layers
        self.blocks = Stack[XLinear](XLinear(settings) for _ in range(blocks))
        self.mixes = nn.ModuleList(FeatureMix(settings) for _ in range(blocks))
        self.dropout = Dropout(settings.attention_dropout)
        self.projection = Linear((blocks + 1) * d_model, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, regions: Tensor, mask: Tensor) -> GlobalMemory:
        """[B, N, D], [B, N] -> updated regions and global vector."""
        x = regions[:, None]
        attn_mask = key_mask(mask)
        g = masked_mean(regions, mask)[:, None, None]  # [B, 1, 1, D]
        summaries = [g]
        for block, mix in zip(self.blocks, self.mixes, strict=True):
            g = self.dropout(block.summarized(g, x, attn_mask))  # Eq. 7
            x = mix(g, x)  # Eq. 8
            summaries.append(g)
        summary = self.norm(self.projection(torch.cat(summaries, -1)))  # Eq. 10
        return GlobalMemory(x[:, 0], mask, summary[:, 0, 0])


class AttendedState(nn.Module):
    """v' = norm(W [h ; v]), then GLU(W' [v' ; h]): state, attended -> context, all [..., D]."""

    def __init__(self, *, d_model: int) -> None:
        super().__init__()
        self.linear = Linear(2 * d_model, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.gate = Linear(2 * d_model, 2 * d_model)

    def forward(self, h: Tensor, attended: Tensor) -> Tensor:
        """[..., D] and [..., D] -> [..., D]."""
        v = self.norm(self.linear(torch.cat([h, attended], -1)))
        return glu(self.gate(torch.cat([v, h], -1)), -1)


class XLan(ContextCaptioner):
    """X-LAN (section 3.3) and the variants of its ablation."""

    def __init__(self, inputs: InputSpec, settings: XLanModel) -> None:
        super().__init__()
        self.d_model = d_model = settings.d_model
        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_dropout = Dropout(settings.feature_dropout)
        self.encoder = XLanEncoder(settings)
        self.word_embedding = nn.Embedding(inputs.vocabulary_size, d_model)
        self.word_dropout = Dropout(settings.word_dropout)
        self.lstm = LSTMCell(2 * d_model, d_model)
        if settings.decoder_attention == "x_linear":
            self.attention: Attention = XLinear(settings)
        else:
            width = settings.heads * settings.d_joint
            self.attention = AdditiveAttention(d_query=d_model, d_source=d_model, d_hidden=width)
        self.attention_dropout = Dropout(settings.attention_dropout)
        self.attended = AttendedState(d_model=d_model)
        self.context_dropout = Dropout(settings.context_dropout)
        self.output_dropout = Dropout(settings.context_dropout)
        self.output = Linear(d_model, inputs.vocabulary_size)

    def encode(self, images: Images) -> GlobalMemory:
        """Images -> regions and global vector; vectors that the mask hides change nothing."""
        regions = self.feature_dropout(celu(self.feature_embedding(images.main.values), CELU_ALPHA))
        return self.encoder(regions, images.main.mask)

    def embed(self, tokens: Tensor) -> Tensor:
        """Token ids [...] -> their part of the LSTM's projected input, [..., 4D]."""
        embedded = self.word_dropout(celu(self.word_embedding(tokens), CELU_ALPHA))
        return self.lstm.project_input(embedded, 0)

    def context(self, h: Tensor, state: ContextState) -> Tensor:
        """Attend to the regions with h; [B, C, D] -> context [B, C, D]."""
        return self.attended(h, self.attention_dropout(self.attend(h, state)))


# Section 4.2: the X-Transformer, with X-Linear attention
# in every place of an encoder-decoder Transformer.
#
# The paper names it without a description; realized from the released configuration: 6+6 layers, D
# 768, 8 heads, B' 48 wide in a head. Two streams run side by side: the vectors (regions or tokens)
# and a global vector g (one per image, or one per token), which is the query of every block:
#
#   encoder   g = block(g, x);  x = feed_forward(mix(g, x));  global = norm(W [g_0 .. g_L])
#   decoder   y = x + block(g, x, causal);  g' = norm(y + block(norm(y), regions));
#             x = feed_forward(mix(g', x))
#   words     norm(dropout ..) of GLU(W [g_0 .. g_L]), g_0 = A(global) * B(mean of tokens so far)
#
# A <pad> among the tokens, unless it comes first, is seen by no other token, as in the release,
# whose <pad> is its end.
# Expected: 137.5 M parameters with 2048-d features and 9,488 ids.

MAX_POSITIONS = 128  # maximum tokens per caption


class Update(nn.Module):
    """x <- feed_forward(mix(g, x)), with a residual and a norm around each."""

    def __init__(self, settings: XTransformerModel) -> None:
        super().__init__()
        residual, feed_forward = post_norm_parts(
            d_model=settings.d_model,
            d_feed_forward=settings.d_feed_forward,
            dropout=settings.dropout,
        )
        self.mix = FeatureMix(settings)
        self.feed_forward = feed_forward()
        self.around_feed_forward = residual()

    def forward(self, g: Tensor, x: Tensor) -> Tensor:
        """[B, C, 1 or N, D] and [B, C, N, D] -> [B, C, N, D]."""
        return self.around_feed_forward(self.mix(g, x), self.feed_forward)


class XEncoderLayer(nn.Module):
    """g <- block(g, x); x <- update(g, x)."""

    def __init__(self, settings: XTransformerModel) -> None:
        super().__init__()
        self.block = XLinear(settings)
        self.update = Update(settings)
        self.dropout = Dropout(settings.dropout)

    def forward(self, g: Tensor, x: Tensor, attn_mask: Tensor) -> tuple[Tensor, Tensor]:
        """[B, 1, 1, D], [B, 1, N, D] and a mask [B, 1, 1, N] -> new g and x."""
        g = self.dropout(self.block.summarized(g, x, attn_mask))
        return g, self.update(g, x)


class XDecoderLayer(nn.Module):
    """Tokens attend to tokens, then to the image.

    The last layer has no update of the tokens (`update` None).
    """

    def __init__(self, settings: XTransformerModel, *, last: bool) -> None:
        super().__init__()
        self.words = XLinear(settings)  # of the tokens so far
        self.image = XLinear(settings)
        self.update = None if last else Update(settings)
        self.words_norm = nn.LayerNorm(settings.d_model)
        self.image_norm = nn.LayerNorm(settings.d_model)
        self.dropout = Dropout(settings.decoder_dropout)

    def forward(
        self,
        g: Rows,
        x: Rows,
        image: KeyValue,
        self_mask: Tensor,
        cross_mask: Tensor,
        past: LayerCache | None = None,
    ) -> tuple[Rows, Rows]:
        """Rows g and x of T tokens [B, C, T, D] -> new g and x; the last layer returns x as it is.

        `image` are keys and values of the image, from the block `image`, with its mask [B, 1, 1,
        N]; that of the tokens so far, `past` among them, is broadcastable to [B, C, T, tokens so
        far].
        """
        tokens = self.words.key_value(x)
        if past is not None:
            past.cache.append(past.layer, tokens)
            # pairs are costly here, so that a beam's copies pay
            tokens = past.cache.per_beam(past.layer)
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
        d_model = settings.d_model
        self.max_vectors, self.d_model = settings.max_vectors, d_model
        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_norm = nn.LayerNorm(d_model)
        self.feature_dropout = Dropout(settings.feature_dropout)
        self.dropout = Dropout(settings.dropout)
        self.encoder = Stack[XEncoderLayer](
            XEncoderLayer(settings) for _ in range(settings.encoder_layers)
        )
        self.global_projection = Linear((settings.encoder_layers + 1) * d_model, d_model)
        self.global_norm = nn.LayerNorm(d_model)
        self.word_embedding = nn.Embedding(inputs.vocabulary_size, d_model)
        self.register_buffer("positions", sinusoid_table(MAX_POSITIONS, d_model))
        self.word_norm = nn.LayerNorm(d_model)
        self.word_dropout = Dropout(settings.word_dropout)
        self.image_side = CeluNorm(d_model)
        self.word_side = CeluNorm(d_model)
        self.decoder = Stack[XDecoderLayer](
            XDecoderLayer(settings, last=layer == settings.decoder_layers)
            for layer in range(1, settings.decoder_layers + 1)
        )
        self.read_off = Linear((settings.decoder_layers + 1) * d_model, 2 * d_model)
        self.output_norm = nn.LayerNorm(d_model)
        self.output_dropout = Dropout(settings.output_dropout)
        self.output = Linear(d_model, inputs.vocabulary_size)

    def encode(self, images: Images) -> GlobalMemory:
        """Images -> vectors and global vector; vectors that the mask hides change nothing."""
        features = images.main.values[:, : self.max_vectors]
        mask = images.main.mask[:, : self.max_vectors]
        x = self.feature_dropout(
            self.feature_norm(celu(self.feature_embedding(features), CELU_ALPHA))
        )
        g = masked_mean(x, mask)[:, None, None]
        x = x[:, None]
        attn_mask = key_mask(mask)
        summaries = [g]
        for layer in self.encoder:
            g, x = layer(g, x, attn_mask)
            summaries.append(g)
        summary = self.global_norm(self.global_projection(torch.cat(summaries, -1)))
        return GlobalMemory(x[:, 0], mask, summary[:, 0, 0])

    def decode(
        self, tokens: Tensor, memory: GlobalMemory, index: PackedIndex | None = None
    ) -> Tensor:
        """Tokens [B, C, T] -> hidden [B, C, T, D], or packed [R, D]."""
        mask = token_mask(tokens)
        self_mask = causal_mask(tokens.shape[-1], tokens.device) & mask[:, :, None]
        x = self._embed(tokens, 0)
        weights = mask.to(x.dtype)[..., None]
        # of the tokens up to each one
        mean = (x * weights).cumsum(2) / weights.cumsum(2).clamp(min=1)
        # g_0 = dropout(A(global) * B(mean of the tokens so far))
        branch = Rows.pack(self.image_side(memory.summary)[:, None, None].expand_as(x), index)
        g = branch.like(self.dropout(branch.values * self.word_side(Rows.pack(mean, index).values)))
        rows = Rows.pack(x, index)
        cross_mask = key_mask(memory.mask)
        summaries = [g.values]
        for layer in self.decoder:
            image = layer.image.key_value(Rows(memory.values[:, None]))
            g, rows = layer(g, rows, image, self_mask, cross_mask)
            summaries.append(g.values)
        return self._readout(summaries)

    def decode_words(self, tokens: Tensor, index: PackedIndex, memory: GlobalMemory) -> Tensor:
        """As `decode`, of the R tokens that are not padding: [R, D].

        Padding takes part in pairs of tokens only.
        """
        if not fast():
            return super().decode_words(tokens, index, memory)
        return self.decode(tokens, memory, index)

    def attention_modules(self) -> list[nn.Identity]:
        """Return where the image blocks pass their weights; see `recap.models.explained`."""
        return [layer.image.weights for layer in self.decoder]

    def start(self, memory: GlobalMemory) -> XTransformerState:
        """Project the image's keys once per layer and open an empty cache."""
        images = len(memory.values)
        device = memory.values.device
        return XTransformerState(
            memory,
            cache=KeyValueCache.empty(images, len(self.decoder), device),
            token_mask=torch.ones(images, 1, 0, dtype=torch.bool, device=device),
            total=memory.values.new_zeros(images, 1, self.d_model),
            image=tuple(
                layer.image.key_value(Rows(memory.values[:, None])) for layer in self.decoder
            ),
            image_branch=self.image_side(memory.summary),
        )

    def step(self, tokens: Tensor, state: XTransformerState) -> tuple[Tensor, XTransformerState]:
        """Tokens [B, C] -> log-probabilities [B, C, V], and the new state.

        No gradient passes through its cache.
        """
        cache = state.cache.extended()
        # [B, C, 1]
        new = token_mask(tokens[..., None]) if state.position == 0 else (tokens != PAD)[..., None]
        mask = torch.cat([state.token_mask, new], 2)  # [B, C, tokens so far]
        x = Rows(self._embed(tokens[..., None], state.position))  # [B, C, 1, D]
        total = state.total + (x.values * new[..., None])[:, :, 0]
        mean = total / mask.sum(-1, keepdim=True).clamp(min=1)
        g = Rows(self.dropout(state.image_branch[:, None, None] * self.word_side(mean[:, :, None])))
        summaries = [g.values]
        self_mask = key_mask(mask)
        cross_mask = key_mask(state.memory.mask)
        for index, layer in enumerate(self.decoder):
            past = LayerCache(cache, index)
            g, x = layer(g, x, state.image[index], self_mask, cross_mask, past)
            summaries.append(g.values)
        log_probabilities = self.log_probabilities(self._readout(summaries)[:, :, 0])
        return log_probabilities, state.advanced(cache=cache, token_mask=mask, total=total)

    def _embed(self, tokens: Tensor, position: int) -> Tensor:
        """Tokens [B, C, T] at positions from `position` on -> [B, C, T, D]."""
        embedded = self.word_embedding(tokens) * math.sqrt(self.d_model)
        positions = self.positions[position : position + tokens.shape[-1]].to(embedded.dtype)
        return self.word_dropout(self.word_norm(embedded + positions))

    def _readout(self, summaries: list[Tensor]) -> Tensor:
        """All global vectors of a token -> what the output layer reads, [..., D]."""
        return self.output_dropout(
            self.output_norm(glu(self.read_off(torch.cat(summaries, -1)), -1))
        )


# From here on nothing is new: the same functions as above
# and as torch's, with gradients by hand, for speed.

CHUNK = 2**21  # entries of q * k made at once: those that fit into a processor's cache
CHUNK_ON_GPU = 2**27  # 512 MiB: few and large kernels


def bilinear_pool(
    q: Tensor, k: Tensor, *pooling: Tensor, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """As `plain_bilinear_pool`, a few images at a time: q * k and B' stay in the CPU's cache."""
    inputs = as_autocast(q.contiguous(), k.contiguous(), *pooling)
    if not fast():
        return plain_bilinear_pool(*inputs, dropout=dropout)
    return _Pool.apply(*inputs, dropout)


class _Pool(torch.autograd.Function):
    """Keeps B' alone, whose zeros tell ReLU and dropout.

    The backward pass multiplies q * k again.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        q, k, weight, bias, spatial, mean_weights, dropout = inputs
        whole = torch.Size([*q.shape[:3], k.shape[2], len(weight)])  # of B'
        mask, scale = dropout_mask(whole, dropout, q.device) if dropout else (None, 1.0)
        # ReLU(s x) = s ReLU(x): dropout's factor costs nothing.
        scaled = weight * scale
        shift = bias * scale
        joint = []  # B' of each chunk
        scores = q.new_empty(*q.shape[:3], k.shape[2])
        means = q.new_empty(*q.shape[:3], len(weight))
        for part in _chunks(q, k):
            pair = q[part][:, :, :, None] * k[part][:, :, None]  # [B, H, R, N, K]
            flat = multiplied(pair.view(-1, q.shape[-1]), scaled, shift).relu_()
            if mask is not None:
                flat.mul_(mask[part].view_as(flat))
            chunk = flat.view(*pair.shape[:-1], len(weight))
            torch.mv(flat, spatial, out=scores[part].view(-1))
            rows = mean_weights[part][:, :, :, None].expand(*pair.shape[:3], 1, -1)
            means[part].copy_(torch.matmul(rows, chunk)[:, :, :, 0])
            if any(ctx.needs_input_grad):
                joint.append(chunk)
        ctx.save_for_backward(q, k, weight, spatial, mean_weights, *joint)
        ctx.scale = scale
        return scores, means

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, weight, spatial, mean_weights, *joint = ctx.saved_tensors
        d_scores, d_means = grads
        scaled = weight * ctx.scale
        width = len(weight)
        d_q = torch.empty_like(q)
        d_k = torch.empty_like(k)
        d_weight = torch.zeros_like(weight)
        d_bias = torch.zeros_like(spatial)
        d_spatial = torch.zeros_like(spatial)
        for part, chunk in zip(_chunks(q, k), joint, strict=True):
            d_chunk_scores = d_scores[part]
            d_spatial += chunk.view(-1, width).mT @ d_chunk_scores.reshape(-1)
            inner = d_means[part][:, :, :, None] * mean_weights[part][..., None]
            inner = inner.addcmul_(d_chunk_scores[..., None], spatial)
            # 0 where B' is
            inner = torch.ops.aten.threshold_backward(inner, chunk, 0).view(-1, width)
            d_bias += inner.sum(0)
            pair = q[part][:, :, :, None] * k[part][:, :, None]
            d_weight.addmm_(inner.mT, pair.view(-1, q.shape[-1]))
            d_pair = multiplied(inner, scaled.mT).view(pair.shape)  # of q * k
            torch.sum(torch.mul(d_pair, k[part][:, :, None], out=pair), 3, out=d_q[part])
            torch.sum(d_pair.mul_(q[part][:, :, :, None]), 2, out=d_k[part])
        return d_q, d_k, d_weight * ctx.scale, d_bias * ctx.scale, d_spatial, None, None


def _chunks(q: Tensor, k: Tensor) -> Iterator[slice]:
    """Cut the images so that each chunk has about as many entries of pairs as suit the device."""
    entries = CHUNK if q.device.type == "cpu" else CHUNK_ON_GPU
    size = max(1, entries // max(1, q[0].numel() * k.shape[2])) if len(q) else 1
    return (slice(start, start + size) for start in range(0, len(q), size))
