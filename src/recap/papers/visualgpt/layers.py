"""The layers of VisualGPT, of its baselines and of its ablations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor, nn

from recap.models.gpt2 import Gpt2Block
from recap.models.state import LevelMemory
from recap.models.transformer import EncoderLayer, Past, TokenLayer
from recap.nn.attention import Attention, KeyValue, MultiHeadAttention, ProjectedAttention, head_width
from recap.nn.layers import FeedForward, Residual
from recap.nn.rows import Rows
from recap.papers.aoanet.attention_on_attention import AttentionOnAttention
from recap.papers.m2.layers import MemoryAttention, MeshedGate
from recap.papers.visualgpt.srau import SelfResurrecting

ORDER = "query_attended"  # of the concatenations in the left-overs of VisualGPT's repository


class Fusion(nn.Module, ABC):
    """Joins the state after self-attention with what the encoder's levels gave for it."""

    last: ClassVar[bool] = True  #: whether only the last level is attended to
    feed_forward: ClassVar[bool] = True  #: whether the block goes on with its feed-forward part

    @abstractmethod
    def forward(self, state: Tensor, query: Tensor, found: Tensor) -> Tensor:
        """State a and normed query, each [..., D], and levels E [L, ..., D] -> [..., D]."""


class Plain(Fusion):
    """a + E_L: the Transformer baseline, and the ablations "Random init." and "GPT2 init."."""

    def forward(self, state: Tensor, query: Tensor, found: Tensor) -> Tensor:
        """See `Fusion`."""
        return state + found[-1]


class Meshed(Fusion):
    """sum_k sigmoid(W_k [a ; e_k] + b_k) e_k / sqrt(L) with e_k = a + E_k: M2 baseline and "GPT2 init. + Meshed"."""

    last = False

    def __init__(self, *, d_model: int, levels: int) -> None:
        super().__init__()
        self.gate = MeshedGate(d_model=d_model, levels=levels)

    def forward(self, state: Tensor, query: Tensor, found: Tensor) -> Tensor:
        """See `Fusion`."""
        return self.gate(state, (state + found).unbind(0))


class AttendedAgain(Fusion):
    """a + AoA(norm(a), E_L): the ablation "GPT2 init. + AoA"."""

    def __init__(self, *, d_model: int, dropout: float) -> None:
        super().__init__()
        self.aoa = AttentionOnAttention(d_model=d_model, order=ORDER, dropout=dropout)

    def forward(self, state: Tensor, query: Tensor, found: Tensor) -> Tensor:
        """See `Fusion`."""
        return state + self.aoa(query, found[-1])


class AoaBaseline(Fusion):
    """AoA(a, a + E_L) with no residual connection around it and no feed-forward part: the AoA Transformer baseline."""

    feed_forward = False

    def __init__(self, *, d_model: int, dropout: float) -> None:
        super().__init__()
        self.aoa = AttentionOnAttention(d_model=d_model, order=ORDER, dropout=dropout)

    def forward(self, state: Tensor, query: Tensor, found: Tensor) -> Tensor:
        """See `Fusion`."""
        return self.aoa(state, state + found[-1])


class Srau(Fusion):
    """The self-resurrecting gates of VisualGPT, see `recap.papers.visualgpt.srau`."""

    last = False

    def __init__(self, *, d_model: int, levels: int, gate: str, tau: float, activation: str, normalized: bool) -> None:
        super().__init__()
        self.gate = SelfResurrecting(
            d_model=d_model, levels=levels, form=gate, tau=tau, activation=activation, normalized=normalized
        )

    def forward(self, state: Tensor, query: Tensor, found: Tensor) -> Tensor:
        """See `Fusion`."""
        return self.gate(state, found)


class VisualBlock(Gpt2Block, TokenLayer):
    """A GPT-2 block with cross-attention between its two parts: rows of [B, C, T, D] -> rows of [B, C, T, D].

    The norm before self-attention is also that of the cross-attention's query and of the encoder's outputs. `fusion`
    joins the state and what was found in the image; `cross_dropout` is on the weights of the cross-attention.
    """

    def __init__(
        self, *, fusion: Fusion, cross_dropout: float, d_model: int, heads: int, d_feed_forward: int, dropout: float
    ) -> None:
        super().__init__(
            d_model=d_model,
            heads=heads,
            d_feed_forward=d_feed_forward,
            dropout=dropout,
            feed_forward=fusion.feed_forward,
        )
        width = head_width(d_model, heads)
        self.cross = ProjectedAttention(d_model=d_model, heads=heads, d_key=width, d_value=width, dropout=cross_dropout)
        self.fusion = fusion

    def image(self, memory: LevelMemory) -> KeyValue:
        """Project the encoder's levels that are attended to -> keys and values [B, L or 1, H, N, K]."""
        chosen = memory.levels[:, -1:] if self.fusion.last else memory.levels
        return self.cross.key_value(Rows(self.attention_norm(chosen)))

    def forward(  # type: ignore[override]
        self, x: Rows, image: KeyValue, self_mask: Tensor | None, cross_mask: Tensor | None, past: Past | None = None
    ) -> Rows:
        """As `TokenLayer.forward`."""
        attended = self.attend(x, self_mask, past)
        query = attended.map(self.attention_norm)
        found = self.cross.each_level(query, image, attn_mask=cross_mask)
        return self.after(x.like(self.fusion(attended.values, query.values, found)))


class AoaEncoderLayer(nn.Module):
    """Post-norm self-attention, then AoA(x, attended) with no feed-forward part: rows of [B, 1, N, D] -> the same."""

    def __init__(self, *, d_model: int, heads: int, dropout: float, aoa_dropout: float) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model=d_model, heads=heads)
        self.around_attention = Residual(d_model=d_model, norm="post", norm_kind="biased", dropout=dropout)
        self.aoa = AttentionOnAttention(d_model=d_model, order=ORDER, dropout=aoa_dropout)

    def forward(self, x: Rows, attn_mask: Tensor | None) -> Rows:
        """Apply the layer; `attn_mask` is broadcastable to [B, 1, N, N]."""
        y = self.around_attention(x.values, lambda y: self.attention.to_itself(x.like(y), attn_mask).values)
        return x.like(self.aoa(x.values, y))


def encoder_layer(
    kind: str, *, d_model: int, heads: int, d_feed_forward: int, memory_slots: int, dropout: float, aoa_dropout: float
) -> nn.Module:
    """Return a layer of the image encoder: "plain", with "memory" slots (M2), or that of the "aoa_baseline"."""
    if kind == "aoa_baseline":
        return AoaEncoderLayer(d_model=d_model, heads=heads, dropout=dropout, aoa_dropout=aoa_dropout)
    width = d_model // heads
    attention: Attention = (
        MemoryAttention(d_model=d_model, heads=heads, d_key=width, d_value=width, slots=memory_slots)
        if kind == "memory"
        else MultiHeadAttention(d_model=d_model, heads=heads)
    )
    return EncoderLayer(
        attention=attention,
        feed_forward=FeedForward(d_model=d_model, d_hidden=d_feed_forward, activation="relu", dropout=dropout),
        residual=lambda: Residual(d_model=d_model, norm="post", norm_kind="biased", dropout=dropout),
    )
