"""X-LAN: X-Linear attention in encoder and decoder, around an LSTM.

Paper: Pan et al. 2020, "X-Linear Attention Networks for Image Captioning"; code: JDAI-CV/image-captioning, not opened
here. With s the activation and * the elementwise product, for each of H heads (the paper prints one):

    B_i  = s(W_k k_i) * s(W_q^k Q)                        query with key                             (2)
    B'_i = ReLU(W_B^k B_i),  b_i = softmax_i(W_b B'_i)    spatial attention                          (3)
    c    = sigmoid(W_e mean_i(B'_i))                      channel attention                          (4-5)
    out  = c * sum_i b_i (s(W_v v_i) * s(W_q^v Q))        query with value                           (6)

s is ReLU, or an exponential unit (Eq. 9: then the Taylor series holds every order of interaction). The query of Eq. 6
does not depend on i and is taken out of the sum. Conventional attention (Eq. 1) is `AdditiveAttention` of `recap.nn`.
As the released code has it, where that differs from the paper:
  - 8 heads (D_B = 8 x 128, D_c = 8 x 64) that share W_B^k, W_b and W_e; CELU(1.3); every projection is
    group-normalized, one group per head; keys and values are updated as one;
  - a norm after W_G; the LSTM reads [word ; global + context], 2 D wide, not four vectors side by side;
  - the attended vector passes through norm(W [h ; v]) before the GLU.
The rows of Table 3: `encoder_layers` 0 to 4, `decoder_attention` conventional or x_linear, `activation` relu or celu.
Departs: with `decoder_attention: conventional` (not released) only the attention itself is exchanged, for Eq. 1.
Expected: 75.2 M parameters with 2048-d features and 9,488 ids. Torch's initialization; the output layer is not tied.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import celu, glu, layer_norm, linear
from torch.nn.functional import dropout as torch_dropout

from recap.models.images import Images, InputSpec
from recap.models.recurrent import ContextCaptioner, ContextState
from recap.models.state import GlobalMemory, masked_mean
from recap.nn.attention import AdditiveAttention, Attention, KeyValue, head_width
from recap.nn.fast import Linear, as_autocast, fast, multiplied, product, uncompiled
from recap.nn.layers import LSTMCell, Stack, make_activation
from recap.nn.masks import MASKED_SCORE, key_mask
from recap.nn.rows import Rows, fold, fold_mask, unfold
from recap.papers.xlan.settings import XLanModel, XLinearSizes

CELU_ALPHA = 1.3  # scale of the exponential units, as released


class Projection(nn.Module):
    """s(W x) of Eq. 2 and 6, then a group norm with one group per head: [..., D] -> [..., D]."""

    def __init__(self, *, d_model: int, heads: int, activation_name: str, alpha: float) -> None:
        super().__init__()
        self.linear = Linear(d_model, d_model)
        self.activation = make_activation(activation_name, known=("relu", "elu", "celu"), alpha=alpha)
        self.norm = HeadNorm(heads, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]; every vector is normalized by itself."""
        return self.norm(self.activation(self.linear(x)))


class HeadNorm(nn.GroupNorm):
    """torch's group norm, one group per head; on a CPU as a layer norm of the heads, which takes half its time."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        if x.device.type != "cpu":
            return super().forward(x.flatten(0, -2)).view_as(x)
        heads = x.unflatten(-1, (self.num_groups, -1))  # [..., H, K]
        return torch.addcmul(self.bias, layer_norm(heads, heads.shape[-1:], eps=self.eps).flatten(-2), self.weight)


def plain_bilinear_pool(
    q: Tensor, k: Tensor, weight: Tensor, bias: Tensor, spatial: Tensor, mean_weights: Tensor, *, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Eq. 2-4: score B' of every query and key, w . B', and average it over the keys of each query.

    q [B, H, R, K] and k [B, H, N, K] as projected, W_B^k [J, K], its bias and w [J], weights of the mean [B, 1, R or 1,
    N] -> scores [B, H, R, N] and means [B, H, R, J]; dropout is on B'. `bilinear_pool` is as this, and fast.
    """
    joint = torch.relu(linear(q[:, :, :, None] * k[:, :, None], weight, bias))  # [B, H, R, N, J]
    joint = torch_dropout(joint, dropout)
    return joint @ spatial, (joint * mean_weights[..., None]).sum(3)


class XLinear(Attention):
    """One X-Linear attention block (Eq. 2-6): D is the paper's D_B, H * d_joint its D_c; dropout is on B'.

    The spatial attention weights pass through the identity `weights`, [B, C, H, T, N] (`recap.models.explained`).
    """

    def __init__(
        self,
        *,
        d_model: int,
        heads: int,
        d_joint: int,
        activation_name: str = "celu",
        alpha: float = CELU_ALPHA,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        width = head_width(d_model, heads)
        self.heads = heads
        projection = partial(Projection, d_model=d_model, heads=heads, activation_name=activation_name, alpha=alpha)
        self.query_key, self.key, self.query_value, self.value = (projection() for _ in range(4))
        self.joint = nn.Linear(width, d_joint)
        self.spatial = nn.Linear(d_joint, 1)
        self.channel = nn.Linear(d_joint, width)
        self.dropout = nn.Dropout(dropout)
        self.weights = nn.Identity()

    def key_value(self, source: Rows) -> KeyValue:
        """Project what is attended to: rows of [B, C or 1, N, D] -> keys and values [B, C or 1, H, N, K]."""
        return source.map(self.key).split_heads(self.heads), source.map(self.value).split_heads(self.heads)

    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Attend, as `Attention.forward`."""
        captions, shared = query.shape[1], key_value[0].shape[1] == 1
        k, v = (x[:, 0] if shared else x.flatten(0, 1) for x in key_value)  # [B', H, N, K]
        if attn_mask is None:
            attn_mask = k.new_ones(1, 1, 1, k.shape[2], dtype=torch.bool)
        mask = fold_mask(attn_mask, query.shape, shared).expand(len(k), -1, -1, -1)  # [B', 1, R or 1, N]
        mean_weights = mask.to(v.dtype)
        mean_weights = mean_weights / mean_weights.sum(-1, keepdim=True).clamp(min=1)
        q = fold(query.map(self.query_key).split_heads(self.heads), shared)  # [B', H, R, K]
        pooling = self.joint.weight, self.joint.bias, self.spatial.weight[0], mean_weights
        scores, mean = bilinear_pool(q, k, *pooling, dropout=self.dropout.p if self.training else 0.0)  # Eq. 2-4
        scores = scores + self.spatial.bias  # [B', H, R, N]; the mean is [B', H, R, J]
        spatial_weights = scores.masked_fill(~mask, MASKED_SCORE).softmax(-1)  # Eq. 3
        q = fold(query.map(self.query_value).split_heads(self.heads), shared)
        attended = q * (spatial_weights.to(v.dtype) @ v) * self.channel(mean).sigmoid()  # Eq. 5-6
        self.weights(unfold(spatial_weights, captions, shared))
        return query.merge_heads(unfold(attended, captions, shared))


def x_linear(settings: XLinearSizes) -> partial[XLinear]:
    """Return what makes the blocks of a model, one like the other."""
    return partial(
        XLinear,
        d_model=settings.d_model,
        heads=settings.heads,
        d_joint=settings.d_joint,
        activation_name=settings.activation,
        alpha=settings.alpha,
        dropout=settings.joint_dropout,
    )


class FeatureMix(nn.Module):
    """Eq. 8, keys and values as one: mix an attended vector g into the vectors x_i that it was attended from.

    x_i <- norm(dropout(ReLU(W [g ; x_i])) + x_i)
    """

    def __init__(self, *, d_model: int, dropout: float) -> None:
        super().__init__()
        self.linear = Linear(2 * d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, g: Tensor, x: Tensor) -> Tensor:
        """[B, C, 1 or N, D] and [B, C, N, D], or both packed -> as x; a g shared by all x is multiplied once."""
        if g.shape == x.shape:
            both = self.linear(torch.cat([g, x], -1))
        else:
            of_g, of_x = self.linear.weight.chunk(2, 1)
            both = product(g, of_g, self.linear.bias) + product(x, of_x, None)
        return self.norm(self.dropout(both.relu_()) + x)


class XLanEncoder(nn.Module):
    """Stacked X-Linear blocks over the regions, each queried by the last one's output (Eq. 7-8, 10)."""

    def __init__(self, *, d_model: int, blocks: list[XLinear], dropout: float, mix_dropout: float) -> None:
        super().__init__()
        self.blocks = Stack[XLinear](blocks)
        self.mixes = nn.ModuleList(FeatureMix(d_model=d_model, dropout=mix_dropout) for _ in blocks)
        self.dropout = nn.Dropout(dropout)
        self.projection = Linear((len(blocks) + 1) * d_model, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, regions: Tensor, mask: Tensor) -> GlobalMemory:
        """[B, N, D], [B, N] -> updated regions and global vector."""
        x, attn_mask = regions[:, None], key_mask(mask)
        g = masked_mean(regions, mask)[:, None, None]  # [B, 1, 1, D]
        summaries = [g]
        for block, mix in zip(self.blocks, self.mixes, strict=True):
            g = self.dropout(block(Rows(g), block.key_value(Rows(x)), attn_mask=attn_mask).values)  # Eq. 7
            x = mix(g, x)  # Eq. 8
            summaries.append(g)
        summary = self.norm(self.projection(torch.cat(summaries, -1)))  # Eq. 10
        return GlobalMemory(x[:, 0], mask, summary[:, 0, 0])


class AttendedState(nn.Module):
    """v' = norm(W [h ; v]), then GLU(W' [v' ; h]): state and attended vector -> context, all [..., D]."""

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
        d_model = settings.d_model
        block = x_linear(settings)
        self.d_model = d_model
        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_dropout = nn.Dropout(settings.feature_dropout)
        self.encoder = XLanEncoder(
            d_model=d_model,
            blocks=[block() for _ in range(settings.encoder_layers)],
            dropout=settings.attention_dropout,
            mix_dropout=settings.mix_dropout,
        )
        self.word_embedding = nn.Embedding(inputs.vocabulary_size, d_model)
        self.word_dropout = nn.Dropout(settings.word_dropout)
        self.lstm = LSTMCell(2 * d_model, d_model)
        self.attention: XLinear | AdditiveAttention = (
            block()
            if settings.decoder_attention == "x_linear"
            else AdditiveAttention(d_query=d_model, d_source=d_model, d_hidden=settings.heads * settings.d_joint)
        )
        self.attention_dropout = nn.Dropout(settings.attention_dropout)
        self.attended = AttendedState(d_model=d_model)
        self.context_dropout, self.output_dropout = (nn.Dropout(settings.context_dropout) for _ in range(2))
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


# From here on nothing is new: the same functions as above and as torch's, with gradients by hand, for speed.

CHUNK = 2**21  # entries of q * k made at once: those that fit into a processor's cache
CHUNK_ON_GPU = 2**27  # 512 MiB: few and large kernels


@uncompiled
def bilinear_pool(q: Tensor, k: Tensor, *pooling: Tensor, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
    """As `plain_bilinear_pool`, a few images at a time, so that q * k and what leads to B' stay in the cache."""
    inputs = as_autocast(q.contiguous(), k.contiguous(), *pooling)
    return _Pool.apply(*inputs, dropout) if fast() else plain_bilinear_pool(*inputs, dropout=dropout)


class _Pool(torch.autograd.Function):
    """Keeps B' alone, whose zeros tell ReLU and dropout; the backward pass multiplies q * k again."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        q, k, weight, bias, spatial, mean_weights, dropout = inputs
        scale = 1 / (1 - dropout)
        scaled, shift = weight * scale, bias * scale  # ReLU(s x) = s ReLU(x): dropout's factor costs nothing
        joint = []  # B' of each chunk
        scores, means = q.new_empty(*q.shape[:3], k.shape[2]), q.new_empty(*q.shape[:3], len(weight))
        for part in _chunks(q, k):
            pair = q[part][:, :, :, None] * k[part][:, :, None]  # [B, H, R, N, K]
            flat = multiplied(pair.view(-1, q.shape[-1]), scaled, shift).relu_()
            if dropout:
                flat.mul_(torch.empty_like(flat).bernoulli_(1 - dropout))
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
        scaled, width = weight * ctx.scale, len(weight)
        d_q, d_k = torch.empty_like(q), torch.empty_like(k)
        d_weight, d_bias, d_spatial = (torch.zeros_like(x) for x in (weight, spatial, spatial))
        for part, chunk in zip(_chunks(q, k), joint, strict=True):
            d_chunk_scores = d_scores[part]
            d_spatial += chunk.view(-1, width).mT @ d_chunk_scores.reshape(-1)
            inner = d_means[part][:, :, :, None] * mean_weights[part][..., None]
            inner = inner.addcmul_(d_chunk_scores[..., None], spatial)
            inner = torch.ops.aten.threshold_backward(inner, chunk, 0).view(-1, width)  # 0 where B' is
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
