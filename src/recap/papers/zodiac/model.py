"""ZoDIAC-Transformer: the Transformer with refined, intensity-scaled attention in every place.

Paper: ZoDIAC ("Zoneup Dropout Injection Attention Calculation"), Eq. 2-12; code: zanyarz/zodiac (MIT), not opened here.
Departs from the released code, on purpose:
  - RAP (Eq. 6-7) is averaged per image and head as printed; in the decoder over the tokens so far (`prefix`), since the
    whole-caption average shows training the future and makes decoding differ from teacher forcing. The code pools one
    scalar over the batch with a denominator that is too small (`rap_scope: as_released` reproduces that).
  - norms use the biased variance (`layer_norm: unbiased` gives the code's form).
As the code, where the paper is silent: feed-forward without activation, dropout 0.2 on attended values, no positions
on the visual side, feature dropout 0.5.
With rap_scope printed, image, global or as_released, `step` encodes the whole prefix for each token, as the released
decoder does, and differs from teacher forcing because the formula itself does.
With rap_scope as_released and `layer_norm: unbiased` the whole model gives the released one's numbers, in what else it
does: an image's padded vectors are zero after their embedding; a caption's tokens see none of its padding; the image's
mask counts once for each caption; a mask that hides nothing counts, too; positions are computed in float32.
Not as released, with rap_scope as_released: the search. One intensity is shared by a batch, so a caption's numbers
depend on its neighbors. The release keeps all images of a batch in the search and feeds captions that have ended. Our
beam search drops an image once its captions have ended. From then on, the others of its batch get other numbers than
the release gives them.
Expected: 59.64 M parameters with 2048-d features, D 512, 6+6 layers, COCO's 9,487 words + <unk>.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Unpack, cast

import torch
from torch import Tensor

from recap.models.base import token_mask
from recap.models.images import Images, InputSpec
from recap.models.state import PER_BEAM, Memory, State
from recap.models.transformer_decoder import TransformerState
from recap.models.transformer_layers import DecoderLayer, Past
from recap.nn.attention import KeyValue
from recap.nn.rows import Rows
from recap.papers.transformer.model import Transformer, TransformerSizes
from recap.papers.zodiac.zoneup import RunningPool, ZodiacMultiHead

_LAYER_SCOPES = {"printed": "head"}


class Pools(NamedTuple):
    """What the self-attention and the cross-attention of a decoder layer have averaged so far."""

    own: RunningPool
    cross: RunningPool


@dataclass(frozen=True, kw_only=True)
class ZodiacState(TransformerState):
    """Also the averages of each decoder layer."""

    pools: tuple[Pools, ...] = field(metadata=PER_BEAM)


@dataclass(frozen=True, kw_only=True)
class PrefixState(State):
    """The tokens so far, [B, C, T]."""

    tokens: Tensor = field(metadata=PER_BEAM)


@dataclass
class ZodiacPast(Past):
    """Also the averages of one layer; a step of the layer replaces them."""

    pools: Pools


class ZodiacDecoderLayer(DecoderLayer):
    """The Transformer's decoder layer, whose attentions continue their averages while decoding."""

    def self_attend(self, x: Rows, attn_mask: Tensor | None, past: Past | None) -> Rows:
        """Attend to the tokens so far."""
        if not isinstance(past, ZodiacPast):
            return super().self_attend(x, attn_mask, past)
        attention = cast(ZodiacMultiHead, self.attention)
        key_value = past.extend(attention.key_value(x))
        out, after = attention.resume(x, key_value, attn_mask=attn_mask, before=past.pools.own)
        past.pools = past.pools._replace(own=after)
        return out

    def cross_attend(self, x: Rows, image: KeyValue, attn_mask: Tensor | None, past: Past | None) -> Rows:
        """Attend to the image."""
        if not isinstance(past, ZodiacPast):
            return super().cross_attend(x, image, attn_mask, past)
        cross = cast(ZodiacMultiHead, self.cross)
        out, after = cross.resume(x, image, attn_mask=attn_mask, before=past.pools.cross)
        past.pools = past.pools._replace(cross=after)
        return out

    def empty_pools(self, like: Tensor) -> Pools:
        """Return the averages before the first token of the images [B, ...]."""
        attentions = cast(ZodiacMultiHead, self.attention), cast(ZodiacMultiHead, self.cross)
        return Pools(*(attention.empty_pool(like) for attention in attentions))


class Zodiac(Transformer):
    """Transformer with ZoDIAC attention.

    Args:
        gate, zeta, zodiac_dropout, gelu: see `recap.papers.zodiac.zoneup.ZodiacMultiHead`.
        rap_scope: what one intensity is averaged over: head (in the decoder over the tokens so far), printed (head in
            every place, in the decoder over the whole caption), image, global or as_released; see
            `recap.papers.zodiac.zoneup`.
        sizes: as in `Transformer`.
    """

    decoder_layer = ZodiacDecoderLayer

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
            scope = "prefix" if rap_scope == "head" and place != "encoder" else _LAYER_SCOPES.get(rap_scope, rap_scope)
            return ZodiacMultiHead(
                d_model=d_model, heads=heads, gate=gate, zeta=zeta, scope=scope, dropout=zodiac_dropout, gelu=gelu
            )

        super().__init__(inputs, d_model=d_model, heads=heads, make_attention=attention, **sizes)
        self.packs = rap_scope == "head"  # only a prefix holds no padding: other scopes average over padded rows, too
        # As released, the average divides by the sum of the mask as it comes, so one that hides nothing counts, too.
        self.counts_masks = rap_scope == "as_released"
        self.cached = rap_scope == "head"

    def _embed_image(self, images: Images) -> tuple[Tensor, Tensor]:
        x, mask = super()._embed_image(images)
        if self.counts_masks:  # the release embeds real vectors alone and pads after that; padded rows count there
            x = x.masked_fill(~mask[..., None], 0.0)
        return x, mask

    def _if_any_is_hidden(self, mask: Tensor) -> Tensor | None:
        return mask if self.counts_masks else super()._if_any_is_hidden(mask)

    def _self_mask(self, x: Rows) -> Tensor:
        mask = super()._self_mask(x)
        if self.counts_masks and x.token_mask is not None:  # the release hides a caption's padding from its tokens
            return mask & x.token_mask[:, :, None]
        return mask

    def _cross_mask(self, x: Rows, memory: Memory) -> Tensor | None:
        mask = super()._cross_mask(x, memory)
        if self.counts_masks and mask is not None:  # the release repeats an image's mask for each of its captions
            return mask.expand(-1, x.shape[1], -1, -1)
        return mask

    def start(self, memory: Memory) -> State:
        """As `Transformer.start`; without a cache, only the tokens so far are carried."""
        images, device = len(memory.values), memory.values.device
        if not self.cached:
            return PrefixState(memory, tokens=torch.empty(images, 1, 0, dtype=torch.long, device=device))
        begun = cast(TransformerState, super().start(memory))
        pools = tuple(cast(ZodiacDecoderLayer, layer).empty_pools(memory.values) for layer in self.decoder)
        return ZodiacState(memory, cache=begun.cache, image=begun.image, pools=pools)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """As `Transformer.step`; without a cache the prefix is encoded again."""
        if isinstance(state, PrefixState):
            return self._step_of_prefix(torch.cat([state.tokens, tokens[..., None]], 2), state)
        state = cast(ZodiacState, state)
        cache = state.cache.extended()
        past = [ZodiacPast(cache, layer, pools) for layer, pools in enumerate(state.pools)]
        log_probabilities = self._step(tokens, state, past)
        pools = tuple(layer.pools for layer in past)
        return log_probabilities, replace(state, position=state.position + 1, cache=cache, pools=pools)

    def _step_of_prefix(self, tokens: Tensor, state: PrefixState) -> tuple[Tensor, State]:
        # The release decodes under one causal mask that all beams share, which its average counts.
        mask = None if self.counts_masks else token_mask(tokens)
        hidden = self._decode_padded(tokens, mask, state.memory)[:, :, -1]
        return self.log_probabilities(hidden), replace(state, position=state.position + 1, tokens=tokens)
