"""ZoDIAC attention: refined attention whose output is scaled by an injected intensity ("ZoneUp").

Paper: ZoDIAC, Eq. 2-9 (one head) and 10-12 (several heads). With G the exact GELU and m the mask:

    RA_map = softmax(G(G(Q1) G(K)^T / sqrt(K)), m)                       (2)
    RA     = dropout(RA_map G(V))                                        (3)
    IV_map = G(G(Q2) G(V)^T / sqrt(K))                                   (4)
    RAP    = sum of IV_map over allowed entries / their number           (6-7)
    out    = RA * (zeta + gate(RAP))                                     (8-9)

What one RAP is averaged over (`scope`):

    prefix  per caption and head, row t averages rows 0..t: no look at future tokens, a running sum makes it cacheable,
            and its last row equals `head` on that prefix
    head    per caption and head, all rows (Eq. 6-7 as printed: each head is a separate ZoDIAC)
    image   per caption, all heads and rows
    global  one number per call
    as_released  one number per call: divided by the sum of the mask before it is broadcast, so too large by H (causal
            self-attention), H * T (key masks) or B * C * H (one shared causal mask, as when it decodes); padded rows
            count, so it moves with the padding; there is always a mask, if only one that hides nothing

Padded rows are left out of `head`, `image` and `global`, which therefore do not move with the padding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from recap.nn.attention import Attention, KeyValue, head_width
from recap.nn.fast import Linear
from recap.nn.layers import make_activation
from recap.nn.rows import Rows, shared_product

GATES = ("sigmoid", "tanh", "none")
SCOPES = ("prefix", "head", "image", "global", "as_released")


class RunningPool(NamedTuple):
    """Sum of the intensity map over the tokens so far and the number of its entries, each [B, C, H] (`prefix`)."""

    total: Tensor
    entries: Tensor


def refined_attention(q1: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, activation: Callable) -> Tensor:
    """Eq. 2-3 before dropout. The mask is applied after the GELU, so unmasked keys keep a score of at least -0.17.

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
    intensity_map: Tensor,
    *,
    mask: Tensor | None,
    scope: str,
    token_mask: Tensor | None = None,
    before: RunningPool | None = None,
) -> tuple[Tensor, RunningPool | None]:
    """RAP of Eq. 6-7: average the intensity map [B, C, H, T, N] over what `scope` says.

    Args:
        intensity_map: IV_map, [B, C, H, T, N].
        mask: broadcastable to the map, True = keep; `as_released` depends on the shape in which it comes.
        scope: one of SCOPES.
        token_mask: broadcastable to [B, C, H, T], True where a row is not padding; padded rows are left out of both
            sums (but for `as_released`, which counts them as released, and `prefix`, where no token's prefix holds
            one).
        before: sum and count of the tokens before these, for `prefix`; None at the first token.

    Returns:
        A pool broadcastable to [B, C, H, T], and sum and count with these tokens (None unless `prefix`).
    """
    rows = intensity_map.sum(-1) if mask is None else (intensity_map * mask).sum(-1)  # [B, C, H, T]
    if mask is None:
        counts = torch.full_like(rows, intensity_map.shape[-1])
    else:
        counts = mask.sum(-1).to(rows.dtype).expand_as(rows)
    if token_mask is not None and scope not in ("as_released", "prefix"):
        rows, counts = rows * token_mask, counts * token_mask
    # A caption may be padding alone, or a mask hide everything: then nothing is counted.
    if scope == "prefix":
        sums, counts = rows.cumsum(-1), counts.cumsum(-1)
        if before is not None:
            sums, counts = sums + before.total[..., None], counts + before.entries[..., None]
        return sums / counts.clamp(min=1), RunningPool(sums[..., -1], counts[..., -1])
    if scope == "as_released":
        size = rows.numel() * intensity_map.shape[-1] if mask is None else mask.sum()
        return (rows.sum() / size).expand(1, 1, 1, 1), None
    over = {"head": (3,), "image": (2, 3), "global": (0, 1, 2, 3)}[scope]
    return rows.sum(over, keepdim=True) / counts.sum(over, keepdim=True).clamp(min=1), None


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
        head_width(d_model, heads)
        if gate not in GATES or scope not in SCOPES:
            raise ValueError(f"unknown gate {gate!r} or scope {scope!r}; gates are {[*GATES]}, scopes are {SCOPES}")
        self.heads, self.zeta, self.scope, self.dropout = heads, zeta, scope, dropout
        self.gate = None if gate == "none" else make_activation(gate)
        self.gelu: Callable[[Tensor], Tensor] = make_activation("gelu" if gelu else "none")
        self.query = Linear(d_model, d_model)
        self.intensity_query = Linear(d_model, d_model)
        self.key = Linear(d_model, d_model)
        self.value = Linear(d_model, d_model)
        self.output = Linear(d_model, d_model)

    def key_value(self, source: Rows, value_source: Rows | None = None) -> KeyValue:
        """Project and activate what is attended to: rows of [B, C or 1, N, D] -> G(K), G(V) [B, C or 1, H, N, K]."""
        key_input = source.map(self.gelu)
        value_input = key_input if value_source is None else value_source.map(self.gelu)
        return self._project(self.key, key_input), self._project(self.value, value_input)

    def _project(self, linear: nn.Module, activated: Rows) -> Tensor:
        # Activated before the heads are split: GELU and its gradient are twice as fast on contiguous rows.
        return activated.map(linear).map(self.gelu).split_heads(self.heads)

    def empty_pool(self, like: Tensor) -> RunningPool:
        """Return what `prefix` averages over before the first token of the images [B, ...], with one beam each."""
        none = like.new_zeros(len(like), 1, self.heads)
        return RunningPool(none, none.clone())

    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Eq. 2-12, as `Attention.forward`; `query.token_mask` says which rows are padding."""
        return self._attend(query, key_value, attn_mask, None)[0]

    def resume(
        self, query: Rows, key_value: KeyValue, *, before: RunningPool, attn_mask: Tensor | None = None
    ) -> tuple[Rows, RunningPool]:
        """As `forward` for tokens that continue captions; also takes and returns what `prefix` averages over."""
        out, after = self._attend(query, key_value, attn_mask, before)
        return out, before if after is None else after

    def _attend(
        self, query: Rows, key_value: KeyValue, attn_mask: Tensor | None, before: RunningPool | None
    ) -> tuple[Rows, RunningPool | None]:
        mask = None if attn_mask is None else attn_mask[:, :, None]  # broadcastable to [B, C, H, T, N]
        token_mask = None if query.token_mask is None else query.token_mask[:, :, None]
        activated = query.map(self.gelu)
        q1 = self._project(self.query, activated)  # [B, C, H, T, K]
        k, v = key_value
        attended = refined_attention(q1, k, v, mask=mask, activation=self.gelu)
        attended = dropout(attended, self.dropout, self.training)
        after = None
        if self.gate is not None:
            q2 = self._project(self.intensity_query, activated)
            intensity_map = self.gelu(shared_product(q2 / math.sqrt(v.shape[-1]), v.mT))
            pool, after = intensity_pool(
                intensity_map, mask=mask, scope=self.scope, token_mask=token_mask, before=before
            )
            attended = attended * (self.zeta + self.gate(pool))[..., None]
        elif self.zeta:
            attended = attended * self.zeta
        return query.merge_heads(attended).map(self.output), after
