"""ZoDIAC-Transformer: the Transformer with refined, intensity-scaled attention in every place.

Paper: ZoDIAC ("Zoneup Dropout Injection Attention Calculation"), Eq. 2-12; code: zanyarz/zodiac (MIT), not opened here.
Departs from the released code, on purpose:
  - RAP (Eq. 6-7) is averaged per image and head as printed; in the decoder over the words so far (`prefix`), since the
    whole-caption average shows training the future and makes decoding differ from teacher forcing. The code pools one
    scalar over the batch with a denominator that is too small (`rap_scope: code` reproduces that).
  - norms use the biased variance (`layer_norm: unbiased` gives the code's form).
As the code, where the paper is silent: feed-forward without activation, dropout 0.2 on attended values, no positions
on the visual side, feature dropout 0.5.
With rap_scope image, global or code, `step` encodes the whole prefix anew for each word, as the released decoder does,
and differs from teacher forcing because the formula itself does.
Expected: 59.64 M parameters with 2048-d features, D 512, 6+6 layers, COCO's 9,487 words + <unk>.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from recap.layers.zoneup import ZodiacMultiHead
from recap.models.base import token_mask
from recap.models.images import InputSpec
from recap.models.state import Memory, State
from recap.models.transformer import Transformer, TransformerSizes


class Zodiac(Transformer):
    """Transformer with ZoDIAC attention.

    Args:
        gate, zeta, zodiac_dropout, gelu: see `recap.layers.zoneup.ZodiacMultiHead`.
        rap_scope: head (decoder: prefix), image, global or code.
        sizes: as in `Transformer`.
    """

    def __init__(
        self,
        inputs: InputSpec,
        *,
        d_model: int,
        heads: int,
        gate: str,
        zeta: float,
        zodiac_dropout: float,
        rap_scope: str,
        gelu: bool,
        **sizes: Unpack[TransformerSizes],
    ) -> None:
        def attention(place: str) -> ZodiacMultiHead:
            scope = "prefix" if rap_scope == "head" and place != "encoder" else rap_scope
            return ZodiacMultiHead(
                d_model=d_model, heads=heads, gate=gate, zeta=zeta, scope=scope, dropout=zodiac_dropout, gelu=gelu
            )

        super().__init__(inputs, d_model=d_model, heads=heads, make_attention=attention, **sizes)
        self.cached = rap_scope == "head"

    def start(self, memory: Memory) -> State:
        """As `Transformer.start`; without caches, only the words so far are carried."""
        if self.cached:
            return super().start(memory)
        images = memory.values.shape[0]
        words = torch.empty(images, 1, 0, dtype=torch.long, device=memory.values.device)
        return State(memory, per_beam={"words": words})

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """As `Transformer.step`; without caches the prefix is encoded anew."""
        if self.cached:
            return super().step(tokens, state)
        words = torch.cat([state.per_beam["words"], tokens[..., None]], dim=2)  # [B, C, t]
        # The release decodes under one causal mask that all beams share, which its average counts.
        real = None if self.counts_masks else token_mask(words)
        hidden = self._decode_padded(words, real, state.memory)[:, :, -1]
        return self.log_probabilities(hidden), State(state.memory, state.position + 1, {"words": words})
