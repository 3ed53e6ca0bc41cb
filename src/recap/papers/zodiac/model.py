"""ZoDIAC-Transformer: the Transformer with refined, intensity-scaled attention in every place.

Paper: "ZoDIAC: Zoneup Dropout Injection Attention Calculation"; code: zanyarz/zodiac (MIT), not
opened here. With G the exact GELU (Eq. 1) and m the mask, one head is

    RA_map = softmax(G(G(Q1) G(K)^T / sqrt(K)), m)                       (2)
    RA     = dropout(RA_map G(V))                                        (3)
    IV_map = G(G(Q2) G(V)^T / sqrt(K))                                   (4)
    RAP    = sum of IV_map over allowed entries / their number           (5-7)
    out    = RA * (zeta + gate(RAP))                                     (8-9)

What one RAP is averaged over (`scope`; padded rows are left out of `head`, `image` and `global`):

    prefix  per caption and head, row t averages rows 0..t: no look at future tokens, a running sum
            makes it cacheable, and its last row equals `head` on that prefix
    head    per caption and head, all rows (Eq. 6-7 as printed: each head is a separate ZoDIAC)
    image   per caption, all heads and rows
    global  one number per call
    as_released  one number per call: divided by the sum of the mask before it is broadcast, so too
            large by H (causal self-attention), H * T (key masks) or B * C * H (one shared causal
            mask, as when it decodes); padded rows count, so it moves with the padding; there is
            always a mask, if only one that hides nothing

Departs from the released code: RAP is averaged as printed, and in the decoder over the tokens so
far (`prefix`), since the whole caption shows training the future; norms use the biased variance
(`layer_norm: unbiased` gives the code's). As the code, where the paper is silent: feed-forward
without activation, no positions on the visual side. With rap_scope printed, image, global or
as_released, `step` encodes the whole prefix for each token, as the released decoder does, and
differs from teacher forcing because the formula itself does. With rap_scope as_released and
`layer_norm: unbiased` the model gives the released one's numbers: an image's padded vectors are
zero after their embedding; a caption's tokens see none of its padding; the image's mask counts once
for each caption. The search is ours: it drops an image once its captions have ended, which the
release keeps in the batch that shares one intensity, so from then on the others of the batch get
other numbers.
Expected: 59.64 M parameters with 2048-d features, D 512, 6+6 layers, COCO's 9,487 words + <unk>.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from recap.models.base import token_mask
from recap.models.images import Images, InputSpec
from recap.models.state import PER_BEAM, KeyValueCache, Memory
from recap.models.transformer import (
    DecoderLayer,
    LayerCache,
    TransformerState,
    own_mask,
    with_cached,
)
from recap.nn.attention import Attention, KeyValue
from recap.nn.fast import Linear
from recap.nn.layers import ACTIVATIONS, dropout
from recap.nn.rows import Rows, key_mask, shared_product
from recap.papers.transformer.model import Transformer, annotated_settings
from recap.papers.zodiac.settings import ZodiacModel
from recap.runs.released import SINUSOID, Options, Release, rename_annotated


def refined_map(
    q1: Tensor, k: Tensor, *, mask: Tensor | None, activation: Callable[[Tensor], Tensor]
) -> Tensor:
    """Eq. 2: G(Q1) [B, C, H, T, K], G(K) [B, C or 1, H, N, K],
    mask broadcastable to the map -> [B, C, H, T, N]."""
    scores = activation(shared_product(q1 / math.sqrt(k.shape[-1]), k.mT))
    if mask is not None:  # after the GELU: unmasked keys keep a score of at least -0.17
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(-1)


class RunningPool(NamedTuple):
    """Sum and number of the intensity map's entries so far, each [B, C, H] (`prefix`)."""

    total: Tensor
    entries: Tensor


def intensity_pool(
    intensity_map: Tensor,
    *,
    mask: Tensor | None,
    scope: str,
    token_mask: Tensor | None = None,
    before: RunningPool | None = None,
) -> tuple[Tensor, RunningPool | None]:
    """RAP of Eq. 5-7: average IV_map [B, C, H, T, N] over
    what `scope` says -> broadcastable to [B, C, H, T].

    `mask` is broadcastable to the map, `token_mask` to [B, C, H, T], True where a row is not
    padding. For `prefix`, whose tokens see no padding, `before` has the tokens before these; the
    second result has these, too.
    """
    # Eq. 5, summed: [B, C, H, T]
    rows = intensity_map.sum(-1) if mask is None else (intensity_map * mask).sum(-1)
    if scope == "as_released":
        size = rows.numel() * intensity_map.shape[-1] if mask is None else mask.sum()
        return (rows.sum() / size).expand(1, 1, 1, 1), None
    if mask is None:  # N of Eq. 6, or the sum of the mask in Eq. 7
        counts = torch.full_like(rows, intensity_map.shape[-1])
    else:
        counts = mask.sum(-1).to(rows.dtype).expand_as(rows)
    # A caption may be padding alone, or a mask hide everything:
    # then nothing is counted, and `clamp` divides by 1.
    if scope == "prefix":
        sums = rows.cumsum(-1)
        counts = counts.cumsum(-1)
        if before is not None:
            sums = sums + before.total[..., None]
            counts = counts + before.entries[..., None]
        return sums / counts.clamp(min=1), RunningPool(sums[..., -1], counts[..., -1])
    if token_mask is not None:
        rows = rows * token_mask
        counts = counts * token_mask
    over = {"head": (3,), "image": (2, 3), "global": (0, 1, 2, 3)}[scope]
    return rows.sum(over, keepdim=True) / counts.sum(over, keepdim=True).clamp(min=1), None


class ZodiacMultiHead(Attention):
    """ZoDIAC multi-head attention (Eq. 10-12):
    five projections with biases, inputs activated before them.

    `gate` of the settings is phi of Eq. 8: sigmoid, tanh, or none (intensity = zeta). With gate
    none and zeta 0 nothing is injected: the intensity is 1. Dropout is on the attended values (Eq.
    3), not on the weights; gelu False removes every G. `scope` is what one RAP is averaged over.
    """

    def __init__(self, settings: ZodiacModel, scope: str) -> None:
        super().__init__()
        d_model = settings.d_model
        self.heads, self.zeta, self.scope = settings.heads, settings.zeta, scope
        self.dropout = settings.zodiac_dropout
        self.gate = None if settings.gate == "none" else ACTIVATIONS[settings.gate]()
        self.gelu: Callable[[Tensor], Tensor] = ACTIVATIONS["gelu" if settings.gelu else "none"]()
        self.query = Linear(d_model, d_model)
        self.intensity_query = Linear(d_model, d_model)
        self.key = Linear(d_model, d_model)
        self.value = Linear(d_model, d_model)
        self.output = Linear(d_model, d_model)
        self.weights = nn.Identity()  # of a word's attention, without the intensity

    def key_value(self, source: Rows) -> KeyValue:
        """Project and activate what is attended to:
        rows of [B, C or 1, N, D] -> G(K), G(V) [B, C or 1, H, N, K]."""
        x = source.map(self.gelu)
        return self.activated(self.key, x), self.activated(self.value, x)

    def activated(self, linear: nn.Module, x: Rows) -> Tensor:
        """G(W G(x)) of Eq. 2-4 and 10, given G(x): rows of [B, C, T, D] -> [B, C, H, T, K]."""
        # Activated before the heads are split:
        # GELU and its gradient are twice as fast on contiguous rows.
        return x.map(linear).map(self.gelu).split_heads(self.heads)

    def empty_pool(self, like: Tensor) -> RunningPool:
        """Return what `prefix` averages over before the first token
        of the images [B, ...], with one beam each."""
        zeros = like.new_zeros(len(like), 1, self.heads)
        return RunningPool(zeros, zeros.clone())

    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Eq. 2-12, as `Attention.forward`; `query.token_mask` says which rows are padding."""
        return self.attend(query, key_value, attn_mask, None)[0]

    def attend(
        self, query: Rows, key_value: KeyValue, attn_mask: Tensor | None, pool: RunningPool | None
    ) -> tuple[Rows, RunningPool | None]:
        """As `forward` for tokens that continue captions.

        Also takes and returns what `prefix` averages over.
        """
        # broadcastable to [B, C, H, T, N]
        mask = None if attn_mask is None else attn_mask[:, :, None]
        token_mask = None if query.token_mask is None else query.token_mask[:, :, None]
        x = query.map(self.gelu)
        k, v = key_value
        q1 = self.activated(self.query, x)  # [B, C, H, T, K]
        weights = self.weights(refined_map(q1, k, mask=mask, activation=self.gelu))
        attended = dropout(shared_product(weights, v), self.dropout, self.training)  # Eq. 3
        if self.gate is not None:
            q2 = self.activated(self.intensity_query, x)
            intensity_map = self.gelu(shared_product(q2 / math.sqrt(v.shape[-1]), v.mT))  # Eq. 4
            rap, pool = intensity_pool(
                intensity_map, mask=mask, scope=self.scope, token_mask=token_mask, before=pool
            )
            attended = attended * (self.zeta + self.gate(rap))[..., None]  # Eq. 8-9
        elif self.zeta:
            attended = attended * self.zeta
        return query.merge_heads(attended).map(self.output), pool  # Eq. 12


class ZodiacDecoderLayer(DecoderLayer):
    """The Transformer's decoder layer, whose attentions continue their averages while decoding."""

    attention: ZodiacMultiHead
    cross: ZodiacMultiHead

    def begin(self, like: Tensor) -> tuple[RunningPool, RunningPool]:
        """Return what self-attention and cross-attention have averaged before the first token."""
        return self.attention.empty_pool(like), self.cross.empty_pool(like)

    def forward(
        self,
        x: Rows,
        image: Any,
        self_mask: Tensor | None,
        cross_mask: Any,
        past: LayerCache | None = None,
        below: Any = (),
    ) -> tuple[Rows, Any]:
        """As `DecoderLayer.forward`; what both attentions have averaged over is remembered."""
        own_pool, cross_pool = (None, None) if past is None else past.layer_state
        query = x.like(self.around_attention.before(x.values))
        words = with_cached(past, self.attention.key_value(query))
        attended, own_pool = self.attention.attend(query, words, self_mask, own_pool)
        y = self.around_attention.after(x.values, attended.values)
        query = x.like(self.around_cross.before(y))
        attended, cross_pool = self.cross.attend(query, image, cross_mask, cross_pool)
        y = self.around_cross.after(y, attended.values)
        return x.like(self.around_feed_forward(y, self.feed_forward)), (own_pool, cross_pool)


@dataclass(frozen=True, kw_only=True)
class PrefixState(TransformerState[Memory]):
    """The tokens so far, [B, C, T], in place of their keys and values: the cache stays empty."""

    tokens: Tensor = field(metadata=PER_BEAM)


class Zodiac(Transformer):
    """Transformer with ZoDIAC attention."""

    def __init__(self, inputs: InputSpec, settings: ZodiacModel) -> None:
        rap_scope = settings.rap_scope

        def attention(place: str) -> ZodiacMultiHead:
            if rap_scope == "head" and place != "encoder":
                return ZodiacMultiHead(settings, "prefix")
            return ZodiacMultiHead(settings, "head" if rap_scope == "printed" else rap_scope)

        super().__init__(
            inputs, settings, make_attention=attention, make_decoder_layer=ZodiacDecoderLayer
        )
        # As released, the average divides by the sum of the mask
        # as it comes, so one that hides nothing counts, too.
        self.keep_masks = rap_scope == "as_released"
        self.in_buckets = not self.keep_masks
        # Only a prefix holds no padding and can be cached:
        # other scopes average over padded and later rows, too.
        self.packs = rap_scope == "head"

    def masks(
        self, x: Rows, memory: Memory, cache: KeyValueCache | None
    ) -> tuple[Tensor, Tensor | None]:
        """As `Transformer.masks`; as released, where an average divides by their size."""
        if not self.keep_masks:
            return super().masks(x, memory, cache)
        # one for all beams; a caption's padding is hidden, an image's mask counts per caption
        own = own_mask(x, cache)
        if x.token_mask is not None:
            own = own & x.token_mask[:, :, None]
        return own, key_mask(memory.mask).expand(-1, x.shape[1], -1, -1)

    def embed_image(self, images: Images) -> tuple[Tensor, Tensor]:
        """As `Transformer.embed_image`; as released,
        real vectors alone are embedded and padding is zero after that."""
        x, mask = super().embed_image(images)
        return x.masked_fill(~mask[..., None], 0.0) if self.keep_masks else x, mask

    def start(self, memory: Memory) -> TransformerState[Memory]:
        """As `Transformer.start`; without a cache, only the tokens so far are carried."""
        if self.packs:
            return super().start(memory)
        images = len(memory.values)
        device = memory.values.device
        tokens = torch.empty(images, 1, 0, dtype=torch.long, device=device)
        return PrefixState(
            memory,
            cache=KeyValueCache.empty(images, 0, device),
            layer_states=(),
            image=(),
            tokens=tokens,
        )

    def step(
        self, tokens: Tensor, state: TransformerState[Memory]
    ) -> tuple[Tensor, TransformerState[Memory]]:
        """As `Transformer.step`; without a cache the prefix is encoded again."""
        if not isinstance(state, PrefixState):
            return super().step(tokens, state)
        prefix = torch.cat([state.tokens, tokens[..., None]], 2)
        mask = None if self.keep_masks else token_mask(prefix)
        hidden = self.decode_padded(prefix, mask, state.memory)[:, :, -1]
        return self.log_probabilities(hidden), state.advanced(tokens=prefix)


# Released checkpoints (zanyarz/zodiac)

# For `layer_norm: unbiased` (docs/reference/parameters.md).
rename_official = partial(
    rename_annotated, projections=("query", "intensity_query", "key", "value", "output")
)
GATES = {"zodiac-sigmoid": "sigmoid", "zodiac-tanh": "tanh"}


def released_settings(tensors: Mapping[str, Tensor], options: Options) -> dict[str, Any]:
    """Return the settings of the ZoDIAC that tensors belong to; its gate is in no tensor."""
    gate = GATES[options.get("caption_model", "zodiac-sigmoid")]
    sizes = annotated_settings(tensors, options)
    return {"kind": "zodiac", **sizes, "gate": gate, "rap_scope": "as_released"}


RELEASE = Release(
    rename=rename_official,
    settings=released_settings,
    decoding={"beam": 5, "max_length": 20, "batch_size": 20},
    unused=SINUSOID,
)
