"""VisualGPT: a pretrained GPT-2 that describes images,
with gates that balance language against vision.

Paper: Chen et al. 2022, "VisualGPT: Data-efficient Adaptation of Pretrained Language Models for
Image Captioning".
Code: Vision-CAIR/VisualGPT (not opened here), whose form is the default: learned gates for each
encoder level, summed (`srau`); regions -> linear, GELU (tanh), dropout, norm; three post-norm
encoder layers with ReLU, all of whose outputs are attended to; one norm of a GPT-2 block before
self-attention, on the query and on the encoder's outputs; dropout on the residual stream itself; no
boxes. `fusion` and `encoder` give its baselines and ablations, too. Eq. 1-2 are those of
`recap.nn.attention`, GPT-2 is in `recap.models.gpt2`; here are the gates (Eq. 4-6) with what the
baselines have in their place (Eq. 3), the blocks of decoder and encoder, the model, and the visual
scores of section 5.6. Departs: padded regions are hidden (`padded_vectors: attended` is the code's
form, whose mask hides nothing); padded tokens are not set to zero, which no real token sees;
matrices that the code never uses are left out.
Expected: 195.3 M parameters in the decoder of the paper's size, 42.5 M of them gates (code: 216.5
M, 21.3 M unused).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, leaky_relu

from recap.core.errors import ConfigError
from recap.models.base import Captioner
from recap.models.explained import Note
from recap.models.gpt2 import DEVIATION, Gpt2Block, Gpt2Decoder, initialize
from recap.models.images import Images, InputSpec
from recap.models.state import KeyValueCache, LevelMemory, Memory, first_vectors
from recap.models.transformer import (
    EncoderLayer,
    LayerCache,
    TokenLayer,
    TransformerDecoder,
    own_mask,
    post_norm_parts,
    xavier_matrices,
)
from recap.nn.attention import KeyValue, MultiHeadAttention
from recap.nn.fast import Linear
from recap.nn.layers import Dropout, Residual, Stack
from recap.nn.rows import Rows, key_mask
from recap.papers.aoanet.model import AttentionOnAttention
from recap.papers.m2.model import MemoryAttention, MeshedGate
from recap.papers.visualgpt.settings import VisualGptModel
from recap.runs.pretrained import load_pretrained

# 4.1 Self-resurrecting activation units

GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "leaky_relu": leaky_relu,
    "gelu": gelu,
}


class SelfResurrecting(nn.Module):
    """Eq. 4-6: two gates, one of which may be zero,
    weigh the state H against what L encoder levels gave for it.

    Printed, `gate` "paper" of the settings, the gates have no parameters, and the sigmoid of the
    state weighs the visual side:

        B_vis = sigmoid(H) 1(sigmoid(H) > tau)                                  (5)
        B_lan = (1 - sigmoid(H)) 1(1 - sigmoid(H) > tau)                        (5)
        B_vis / (B_vis + B_lan),   B_lan / (B_vis + B_lan)      if `normalized` (6)
        z = B_vis * EncDecAttn(H, I) + B_lan * H                                (4)

    "released", from which the paper's numbers come, learns the gate of each encoder level k, sums
    over the levels and lets the gate weigh the language side:

        alpha_k = sigmoid(W_k [H ; E_k] + b_k)
        B_lan = alpha_k 1(alpha_k > tau)                                        (5)
        B_vis = (1 - alpha_k) 1(1 - alpha_k > tau)                              (5)
        z = sum_k (B_vis * E_k + B_lan * H) / sqrt(L)                           (4)

    With tau 0 the gates are complementary. An `activation` other than the sigmoid has no upper
    limit, and the training diverges (section 5.4).
    """

    def __init__(self, settings: VisualGptModel) -> None:
        super().__init__()
        d_model, levels = settings.d_model, settings.encoder_layers
        self.tau, self.normalized = settings.tau, settings.normalized
        self.activation = GATES[settings.gate_activation]
        self.gates: nn.ModuleList | None = None
        if settings.gate == "released":
            self.gates = nn.ModuleList(Linear(2 * d_model, d_model) for _ in range(levels))
        self.visual = nn.Identity()  # which `visual_gates` reads, as the next
        self.language = nn.Identity()

    def forward(self, state: Tensor, levels: Tensor) -> Tensor:
        """Eq. 4: state [..., D] and each level's [L, ..., D] -> [..., D]."""
        total = torch.zeros_like(state)
        for level, seen in enumerate(levels):
            visual, language = self.pair(state, seen, level)
            total = total + self.visual(visual) * seen + self.language(language) * state
        return total / math.sqrt(len(levels))

    def pair(self, state: Tensor, seen: Tensor, level: int) -> tuple[Tensor, Tensor]:
        """Eq. 5-6: B_vis and B_lan of one level, each [..., D]."""
        if self.gates is None:
            visual = self.activation(state)
        else:
            visual = 1 - self.activation(self.gates[level](torch.cat([state, seen], -1)))
        return gates_above(visual, tau=self.tau, normalized=self.normalized)


def gates_above(visual: Tensor, *, tau: float, normalized: bool) -> tuple[Tensor, Tensor]:
    """Eq. 5, and if normalized Eq. 6: a visual gate -> B_vis and B_lan, each of its shape."""
    language = 1 - visual
    visual = visual * (visual > tau)
    language = language * (language > tau)
    if not normalized:
        return visual, language
    both = visual + language
    return visual / both, language / both


# What the ablations and baselines have in place of the gates (section 5.4 and Table 1)

ORDER = "query_attended"  # of the concatenations in the left-overs of VisualGPT's repository


class CrossFusion(nn.Module):
    """Joins the state a after self-attention with what the encoder's levels E_1 .. E_L gave for it.

    srau            Eq. 4 (VisualGPT)
    plain           a + E_L, Eq. 3 with GPT-2's norm
                    (Transformer; "Random init.", "GPT2 init.")
    meshed          sum_k sigmoid(W_k [a ; e_k] + b_k) e_k / sqrt(L), e_k = a + E_k
                    (M2; "GPT2 init. + Meshed")
    aoa             a + AoA(norm(a), E_L) ("GPT2 init. + AoA")
    aoa_baseline    AoA(a, a + E_L), and no feed-forward part after it (AoA Transformer)
    """

    def __init__(self, settings: VisualGptModel) -> None:
        super().__init__()
        self.kind = settings.fusion
        self.every_level = self.kind in ("srau", "meshed")
        self.feed_forward = self.kind != "aoa_baseline"
        d_model = settings.d_model
        if self.kind == "srau":
            self.gate: nn.Module = SelfResurrecting(settings)
        elif self.kind == "meshed":
            self.gate = MeshedGate(d_model=d_model, levels=settings.encoder_layers)
        elif self.kind != "plain":
            self.aoa = AttentionOnAttention(
                d_model=d_model, order=ORDER, dropout=settings.aoa_dropout
            )

    def forward(self, state: Tensor, query: Tensor, levels: Tensor) -> Tensor:
        """State a and normed query, each [..., D], and levels E [L, ..., D] -> [..., D]."""
        joined: Tensor
        match self.kind:
            case "srau":
                joined = self.gate(state, levels)
            case "meshed":
                joined = self.gate(state, (state + levels).unbind(0))
            case "plain":
                joined = state + levels[-1]
            case "aoa":
                joined = state + self.aoa(query, levels[-1])
            case "aoa_baseline":
                joined = self.aoa(state, state + levels[-1])
        return joined


# 4.2 Decoder and encoder


class VisualBlock(Gpt2Block, TokenLayer):
    """A GPT-2 block with cross-attention between its two parts:
    rows of [B, C, T, D] -> rows of [B, C, T, D].

    The norm before self-attention is also that of the cross-attention's query and of the encoder's
    outputs.
    """

    def __init__(self, settings: VisualGptModel) -> None:
        fusion = CrossFusion(settings)
        d_model, heads = settings.d_model, settings.heads
        super().__init__(
            d_model=d_model,
            heads=heads,
            d_feed_forward=settings.d_feed_forward,
            dropout=settings.dropout,
            feed_forward=fusion.feed_forward,
        )
        self.cross = MultiHeadAttention(
            d_model=d_model, heads=heads, dropout=settings.cross_dropout
        )
        self.fusion = fusion

    def image(self, memory: LevelMemory) -> KeyValue:
        """Project the encoder's levels -> keys and values [B, L or 1, H, N, K]."""
        levels = memory.levels if self.fusion.every_level else memory.levels[:, -1:]
        return self.cross.key_value(Rows(self.attention_norm(levels)))

    def forward(  # type: ignore[override]
        self,
        x: Rows,
        image: KeyValue,
        self_mask: Tensor | None,
        cross_mask: Tensor | None,
        past: LayerCache | None = None,
        below: Any = (),
    ) -> tuple[Rows, Any]:
        """As `TokenLayer.forward`."""
        state = self.attend(x, self_mask, past)
        query = state.map(self.attention_norm)
        levels = self.cross.each_level(
            query, image, attn_mask=cross_mask
        )  # Eq. 1-2, of each encoder layer
        return self.after(x.like(self.fusion(state.values, query.values, levels))), ()


class AoaEncoderLayer(nn.Module):
    """Post-norm self-attention, then AoA(x, attended) with no feed-forward part:
    rows of [B, 1, N, D] -> the same."""

    def __init__(self, settings: VisualGptModel) -> None:
        super().__init__()
        d_model = settings.d_model
        self.attention = MultiHeadAttention(d_model=d_model, heads=settings.heads)
        self.around_attention = Residual(
            d_model=d_model, norm="post", norm_kind="biased", dropout=settings.dropout
        )
        self.aoa = AttentionOnAttention(d_model=d_model, order=ORDER, dropout=settings.aoa_dropout)

    def forward(self, x: Rows, attn_mask: Tensor | None) -> Rows:
        """Apply the layer; `attn_mask` is broadcastable to [B, 1, N, N]."""
        y = x.within(self.around_attention, lambda y: self.attention.to_itself(y, attn_mask))
        return x.like(self.aoa(x.values, y.values))


def encoder_layer(settings: VisualGptModel) -> nn.Module:
    """Return a layer of the image encoder: "plain", "memory" (M2) or "aoa_baseline"."""
    if settings.encoder == "aoa_baseline":
        return AoaEncoderLayer(settings)
    make: Callable[..., MultiHeadAttention] = MultiHeadAttention
    if settings.encoder == "memory":
        make = partial(MemoryAttention, slots=settings.memory_slots)
    attention = make(d_model=settings.d_model, heads=settings.heads)
    residual, feed_forward = post_norm_parts(
        d_model=settings.d_model,
        d_feed_forward=settings.d_encoder_feed_forward,
        dropout=settings.dropout,
    )
    return EncoderLayer(attention=attention, feed_forward=feed_forward(), residual=residual)


# The model


class VisualGpt(TransformerDecoder[LevelMemory]):
    """VisualGPT, its baselines and ablations.

    The decoder begins with `inputs.weights`, where the settings name pretrained ones; they are None
    where a trained model is loaded.
    """

    decoder: Gpt2Decoder[VisualBlock]

    def __init__(self, inputs: InputSpec, settings: VisualGptModel) -> None:
        super().__init__()
        d_model = settings.d_model
        self.max_vectors, self.padded_to = settings.max_vectors, settings.padded_to
        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_dropout = Dropout(settings.feature_dropout)
        self.feature_norm = nn.LayerNorm(d_model)
        self.encoder = nn.ModuleList(
            encoder_layer(settings) for _ in range(settings.encoder_layers)
        )
        self.decoder = Gpt2Decoder[VisualBlock](
            vocabulary_size=inputs.vocabulary_size,
            d_model=d_model,
            positions=settings.positions,
            blocks=[VisualBlock(settings) for _ in range(settings.decoder_layers)],
        )
        self._initialize(settings)
        if settings.pretrained and inputs.weights is not None:
            load_pretrained(self.decoder, inputs.weights, inputs.vocabulary)

    def _initialize(self, settings: VisualGptModel) -> None:
        """Draw the random weights; what pretrained weights do not bring keeps them."""
        blocks: Stack[VisualBlock] = self.decoder.blocks
        xavier_matrices(self.feature_embedding)
        xavier_matrices(self.encoder)
        if settings.initialization == "xavier":
            xavier_matrices(self.decoder)
        else:
            gates = [deepcopy(block.fusion.state_dict()) for block in blocks]
            initialize(self.decoder)
            for block, gate in zip(blocks, gates, strict=True):
                block.fusion.load_state_dict(gate)  # torch's own initialization stays
                for linear in (block.cross.query, block.cross.key, block.cross.value):
                    nn.init.xavier_uniform_(linear.weight)
                nn.init.normal_(block.cross.output.weight, std=DEVIATION)
        if settings.copy_layers:
            for block in blocks:
                block.load_state_dict(blocks[0].state_dict())

    def encode(self, images: Images) -> LevelMemory:
        """Images -> outputs of all encoder layers; vectors that the mask hides change nothing."""
        values, mask = first_vectors(images.main, self.max_vectors, self.padded_to)
        x = gelu(self.feature_embedding(values), approximate="tanh")
        x = self.feature_norm(self.feature_dropout(x))
        return self.encode_levels(self.encoder, x, mask, key_mask(mask))

    @property
    def layers(self) -> Stack[VisualBlock]:
        """GPT-2's blocks."""
        return self.decoder.blocks

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Token ids [...] and their positions -> [..., D]."""
        return self.decoder.embed(tokens, positions)

    @property
    def longest(self) -> int:
        """The learned positions."""
        return self.decoder.position_embedding.num_embeddings

    def norm(self, x: Tensor) -> Tensor:
        """Output of the last block [..., D] -> hidden [..., D]."""
        return self.decoder.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V], with the word table."""
        return self.decoder.logits(hidden)

    def masks(
        self, x: Rows, memory: LevelMemory, cache: KeyValueCache | None
    ) -> tuple[Tensor, Tensor]:
        """As `TransformerDecoder.masks`; the image's is always given."""
        return own_mask(x, cache), key_mask(memory.mask)


# 5.6 Visual scores: how much of each word the gates of the last layer took from the image


@torch.no_grad()
def visual_gates(model: Captioner, tokens: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    """Return B_vis and B_lan under teacher forcing, each [layers, B, C, T]:
    means over the width and encoder levels.

    The visual score of a word is B_vis of the last layer. Tokens [B, C, T] begin with <bos>; entry
    t is the gate behind token t + 1.
    """
    gates = [module for module in model.modules() if isinstance(module, SelfResurrecting)]
    if not gates:
        raise ConfigError(
            f"{type(model).__name__} has no visual gates; take kind visual_gpt with fusion srau"
        )
    means: dict[str, list[Tensor]] = {"visual": [], "language": []}

    def read(side: str, _module: object, _inputs: object, gate: Tensor) -> None:
        means[side].append(gate.mean(-1))

    with ExitStack() as hooks:
        for gate in gates:
            hooks.enter_context(gate.visual.register_forward_hook(partial(read, "visual")))
            hooks.enter_context(gate.language.register_forward_hook(partial(read, "language")))
        model.decode(tokens, memory)
    # A layer's gates are called once per level.
    levels = (len(gates), -1)
    visual = torch.stack(means["visual"]).unflatten(0, levels).mean(1)
    language = torch.stack(means["language"]).unflatten(0, levels).mean(1)
    return visual, language


def gate_notes(
    model: Captioner, images: Images, tokens: Tensor, words: Sequence[str]
) -> list[Note]:
    """Return the visual gate of the last layer behind each word."""
    if not any(isinstance(module, SelfResurrecting) for module in model.modules()):
        return []  # of another fusion
    visual, _ = visual_gates(model, tokens, model.encode(images))
    return [Note("visual gate of the last layer", values=visual[-1, 0, 0, : len(words)].tolist())]
