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
from typing import Any, NamedTuple

import torch
from torch import Tensor

from recap.models.base import token_mask
from recap.models.cache import KeyValueCache
from recap.models.images import Images, InputSpec
from recap.models.state import PER_BEAM, Memory
from recap.models.transformer import DecoderLayer, Past, TransformerState, make_masks, own_mask
from recap.nn.attention import KeyValue
from recap.nn.masks import key_mask
from recap.nn.rows import Rows
from recap.papers.transformer.model import Transformer
from recap.papers.zodiac.settings import ZodiacModel
from recap.papers.zodiac.zoneup import RunningPool, ZodiacMultiHead

_LAYER_SCOPES = {"printed": "head"}


class Pools(NamedTuple):
    """What the self-attention and the cross-attention of a decoder layer have averaged so far."""

    own: RunningPool
    cross: RunningPool


@dataclass(frozen=True, kw_only=True)
class PrefixState(TransformerState[Memory]):
    """The tokens so far, [B, C, T], in place of their keys and values: the cache stays empty."""

    tokens: Tensor = field(metadata=PER_BEAM)


class ZodiacDecoderLayer(DecoderLayer):
    """The Transformer's decoder layer, whose attentions continue their averages while decoding."""

    attention: ZodiacMultiHead
    cross: ZodiacMultiHead

    def begin(self, like: Tensor) -> Pools:
        """Return the averages before the first token."""
        return Pools(self.attention.empty_pool(like), self.cross.empty_pool(like))

    def self_attend(self, x: Rows, attn_mask: Tensor | None, past: Past | None, **others: Any) -> Rows:
        """Attend to the tokens so far."""
        if past is None:
            return super().self_attend(x, attn_mask, past, **others)
        key_value = past.extend(self.attention.key_value(x))
        out, after = self.attention.resume(x, key_value, attn_mask=attn_mask, before=past.carried.own)
        past.carried = past.carried._replace(own=after)
        return out

    def cross_attend(self, x: Rows, image: KeyValue, attn_mask: Tensor | None, past: Past | None) -> Rows:
        """Attend to the image."""
        if past is None:
            return super().cross_attend(x, image, attn_mask, past)
        out, after = self.cross.resume(x, image, attn_mask=attn_mask, before=past.carried.cross)
        past.carried = past.carried._replace(cross=after)
        return out


def counted_masks(x: Rows, memory: Memory, cache: KeyValueCache | None) -> tuple[Tensor, Tensor]:
    """Return masks whose size the released average divides by, as the release has them; see `MakeMasks`.

    It hides a caption's padding from its tokens, repeats an image's mask for each of its captions, and decodes under
    one causal mask that all beams share.
    """
    own = own_mask(x, cache)
    if x.token_mask is not None:
        own = own & x.token_mask[:, :, None]
    return own, key_mask(memory.mask).expand(-1, x.shape[1], -1, -1)


class Zodiac(Transformer):
    """Transformer with ZoDIAC attention."""

    decoder_layer = ZodiacDecoderLayer

    def __init__(self, inputs: InputSpec, settings: ZodiacModel) -> None:
        rap_scope = settings.rap_scope

        def attention(place: str) -> ZodiacMultiHead:
            scope = "prefix" if rap_scope == "head" and place != "encoder" else _LAYER_SCOPES.get(rap_scope, rap_scope)
            return ZodiacMultiHead(
                d_model=settings.d_model,
                heads=settings.heads,
                gate=settings.gate,
                zeta=settings.zeta,
                scope=scope,
                dropout=settings.zodiac_dropout,
                gelu=settings.gelu,
            )

        # As released, the average divides by the sum of the mask as it comes, so one that hides nothing counts, too.
        counts_masks = rap_scope == "as_released"
        super().__init__(
            inputs,
            settings,
            make_attention=attention,
            make_masks=counted_masks if counts_masks else make_masks,
            keep_masks=counts_masks,
        )
        self.counts_masks = counts_masks
        self.packs = rap_scope == "head"  # only a prefix holds no padding: other scopes average over padded rows, too
        self.cached = rap_scope == "head"

    def embed_image(self, images: Images) -> tuple[Tensor, Tensor]:
        """As `Transformer.embed_image`; as released, real vectors alone are embedded and padding is zero after that."""
        x, mask = super().embed_image(images)
        return x.masked_fill(~mask[..., None], 0.0) if self.counts_masks else x, mask

    def start(self, memory: Memory) -> TransformerState[Memory]:
        """As `Transformer.start`; without a cache, only the tokens so far are carried."""
        if self.cached:
            return super().start(memory)
        images, device = len(memory.values), memory.values.device
        none = torch.empty(images, 1, 0, dtype=torch.long, device=device)
        return PrefixState(memory, cache=KeyValueCache.empty(images, 0, device), carried=(), image=(), tokens=none)

    def step(self, tokens: Tensor, state: TransformerState[Memory]) -> tuple[Tensor, TransformerState[Memory]]:
        """As `Transformer.step`; without a cache the prefix is encoded again."""
        if not isinstance(state, PrefixState):
            return super().step(tokens, state)
        prefix = torch.cat([state.tokens, tokens[..., None]], 2)
        mask = None if self.counts_masks else token_mask(prefix)
        hidden = self.decode_padded(prefix, mask, state.memory)[:, :, -1]
        return self.log_probabilities(hidden), replace(state, position=state.position + 1, tokens=prefix)
