"""ZoDIAC attention: refined attention whose output is scaled by an injected intensity ("ZoneUp").

Paper: ZoDIAC, Eq. 2-9 (one head) and 10-12 (several heads). With G the exact GELU and m the mask:

    RA_map = softmax(G(G(Q1) G(K)^T / sqrt(K)), m)                       (2)
    RA     = dropout(RA_map G(V))                                        (3)
    IV_map = G(G(Q2) G(V)^T / sqrt(K))                                   (4)
    RAP    = sum of IV_map over allowed entries / their number           (6-7)
    out    = RA * (zeta + gate(RAP))                                     (8-9)

What one RAP is averaged over (`scope`):

    prefix  per caption and head, row t averages rows 0..t: no look at future words, a running sum makes it cacheable,
            and its last row equals `head` on that prefix
    head    per caption and head, all rows (Eq. 6-7 as printed: each head is a ZoDIAC of its own)
    image   per caption, all heads and rows
    global  one number a call
    code    one number a call, as released: divided by the sum of the mask before it is broadcast, so too large by
            H (causal self-attention), H * T (key masks) or B * C * H (one shared causal mask, as when it decodes);
            padded rows count, so it moves with the padding; there is always a mask, if only one that hides nothing

Padded rows are left out of `head`, `image` and `global`, which therefore do not move with the padding.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import dropout, gelu

from recap.layers.attention import (
    Attention,
    Carry,
    KeyValue,
    causal_mask,
    merge_heads,
    rows_of_mask,
    shared_product,
    split_heads,
)
from recap.layers.fast.linear import Linear
from recap.layers.fast.packing import Words, pack, spread

GATES: dict[str, Callable[[Tensor], Tensor]] = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "none": torch.zeros_like}
SCOPES = ("prefix", "head", "image", "global", "code")


def refined_attention(q1: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, activation: Callable) -> Tensor:
    """Eq. 2-3 before dropout. The mask goes on after the GELU, so unmasked keys keep a score of at least -0.17.

    Args:
        q1: [B, C, H, T, K]; k, v: [B, C or 1, H, N, K], already activated.
        mask: broadcastable to [B, C, H, T, N], True = keep.
        activation: G.

    Returns:
        [B, C, H, T, K].
    """
    scores = activation(shared_product(q1 / math.sqrt(k.shape[-1]), k.mT))
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return shared_product(scores.softmax(-1), v)


def intensity_pool(
    intensity_map: Tensor, *, mask: Tensor | None, scope: str, real: Tensor | None = None, carry: Carry = ()
) -> tuple[Tensor, Carry]:
    """RAP of Eq. 6-7: average the intensity map [B, C, H, T, N] over what `scope` says.

    Args:
        intensity_map: IV_map, [B, C, H, T, N].
        mask: broadcastable to the map with True = keep, in the shape in which the caller has it (`code` depends on it).
        scope: one of SCOPES.
        real: broadcastable to [B, C, H, T], True where a row is no padding; padded rows are left out of both sums
            (but for `code`, which counts them as released, and `prefix`, where no real row's prefix holds one).
        carry: (sum, count) [B, C, H] of the words before, for `prefix`; empty at the first word.

    Returns:
        A pool broadcastable to [B, C, H, T], and the new carry (empty unless `prefix`).
    """
    rows = intensity_map.sum(-1) if mask is None else (intensity_map * mask).sum(-1)  # [B, C, H, T]
    if mask is None:
        counts = torch.full_like(rows, intensity_map.shape[-1])
    else:
        counts = mask.sum(-1).to(rows.dtype).expand_as(rows)
    if real is not None and scope not in ("code", "prefix"):
        rows, counts = rows * real, counts * real
    if scope == "prefix":
        sums, counts = rows.cumsum(-1), counts.cumsum(-1)
        if carry:
            sums, counts = sums + carry[0][..., None], counts + carry[1][..., None]
        return sums / counts, (sums[..., -1], counts[..., -1])
    if scope == "code":
        size = rows.numel() * intensity_map.shape[-1] if mask is None else mask.sum()
        return (rows.sum() / size).expand(1, 1, 1, 1), ()
    # A caption may be padding alone: then nothing is counted.
    over = {"head": (3,), "image": (2, 3), "global": (0, 1, 2, 3)}[scope]
    return rows.sum(over, keepdim=True) / counts.sum(over, keepdim=True).clamp(min=1), ()


class ZodiacMultiHead(Attention):
    """ZoDIAC multi-head attention (Eq. 10-12): five projections with biases, inputs activated before them.

    Args:
        d_model: width D, divisible by `heads`.
        heads: number of heads H.
        gate: phi of Eq. 8: sigmoid, tanh, or none (intensity = zeta).
        zeta: the ZoneUp constant of Eq. 8. With gate none and zeta 0 nothing is injected: the intensity is 1.
        scope: what one intensity is averaged over, see the module.
        dropout: on the attended values (Eq. 3), not on the weights.
        gelu: False removes every G (the paper's ablation).
    """

    def __init__(
        self, *, d_model: int, heads: int, gate: str, zeta: float, scope: str, dropout: float, gelu: bool
    ) -> None:
        super().__init__()
        if d_model % heads:
            raise ValueError(f"d_model {d_model} is not divisible by {heads} heads")
        if gate not in GATES or scope not in SCOPES:
            raise ValueError(f"unknown gate {gate!r} or scope {scope!r}; gates are {[*GATES]}, scopes are {SCOPES}")
        self.heads, self.gate, self.zeta, self.scope, self.dropout = heads, gate, zeta, scope, dropout
        self.gelu = gelu
        self.query = Linear(d_model, d_model)
        self.intensity_query = Linear(d_model, d_model)
        self.key = Linear(d_model, d_model)
        self.value = Linear(d_model, d_model)
        self.output = Linear(d_model, d_model)

    def activation(self, x: Tensor) -> Tensor:
        """G: the exact GELU, or the identity in the ablation."""
        return gelu(x) if self.gelu else x

    @property
    def packs(self) -> bool:
        """Only a prefix holds no padding: the other scopes average over the padded rows, too."""
        return self.scope == "prefix"

    @property
    def counts_masks(self) -> bool:
        """The released average divides by the sum of the mask as it comes, so one that hides nothing counts, too."""
        return self.scope == "code"

    def keys(self, source: Tensor, value_source: Tensor | None = None, *, words: Words | None = None) -> KeyValue:
        """Project and activate what is attended to: [B, C or 1, N, D] or [R, D] -> G(K), G(V) [B, C or 1, H, N, K]."""
        key_input = self.activation(source)
        value_input = key_input if value_source is None else self.activation(value_source)
        # Activated before the heads are split: GELU and its gradient are twice as fast on contiguous rows.
        k, v = (spread(self.activation(x), words) for x in (self.key(key_input), self.value(value_input)))
        return split_heads(k, self.heads), split_heads(v, self.heads)

    def start(self, images: int, captions: int, like: Tensor) -> Carry:
        """Return the running sum and count [B, C, H] before the first word (`prefix`), else nothing."""
        if self.scope != "prefix":
            return ()
        empty = like.new_zeros(images, captions, self.heads)
        return empty, empty.clone()

    def forward(
        self,
        query: Tensor,
        keys: KeyValue,
        *,
        mask: Tensor | None = None,
        real: Tensor | None = None,
        causal: bool = False,
        carry: Carry = (),
        words: Words | None = None,
    ) -> tuple[Tensor, Carry]:
        """Attend; arguments and results as in `recap.layers.attention.MultiHeadAttention`.

        Padded words of a caption stand after its real ones, so no real row's prefix holds one.
        """
        visible = None if mask is None else rows_of_mask(mask)  # [B, 1 or C, 1, 1, N]
        rows = None if real is None else rows_of_mask(real)[:, :, 0]  # [B, 1 or C, 1, T]
        if self.counts_masks and visible is not None:  # the release repeats an image's mask for each of its captions
            visible = visible.expand(-1, query.shape[1], -1, -1, -1)
        if causal:
            triangle = causal_mask(keys[0].shape[3], query.device)[None, None, None]
            visible = triangle if visible is None else visible & triangle
            if self.counts_masks and real is not None:  # and hides a caption's padding from its words
                visible = visible & rows_of_mask(real)
        return self.attend(query, keys, visible=visible, real=rows, carry=carry, words=words)

    def attend(
        self,
        query: Tensor,
        keys: KeyValue,
        *,
        visible: Tensor | None,
        real: Tensor | None = None,
        carry: Carry = (),
        words: Words | None = None,
    ) -> tuple[Tensor, Carry]:
        """Eq. 2-12 under a mask of any shape broadcastable to [B, C, H, T, N]; `real` as in `intensity_pool`."""
        activated = self.activation(query)
        q1 = split_heads(spread(self.activation(self.query(activated)), words), self.heads)  # [B, C, H, T, K]
        k, v = keys
        attended = refined_attention(q1, k, v, mask=visible, activation=self.activation)
        attended = dropout(attended, self.dropout, self.training)
        if self.gate != "none":
            q2 = split_heads(spread(self.activation(self.intensity_query(activated)), words), self.heads)
            intensity_map = self.activation(shared_product(q2 / math.sqrt(v.shape[-1]), v.mT))
            pool, carry = intensity_pool(intensity_map, mask=visible, scope=self.scope, real=real, carry=carry)
            attended = attended * (self.zeta + GATES[self.gate](pool))[..., None]
        elif self.zeta:
            attended = attended * self.zeta
        return self.output(pack(merge_heads(attended), words)), carry
