"""What ZoDIAC looked at: the refined attention of all its decoder layers, without the intensity (Eq. 2)."""

from __future__ import annotations

import math

from torch import Tensor

from recap.models.explained import Explained
from recap.nn.attention import KeyValue
from recap.nn.rows import Rows
from recap.papers.transformer.model import cross_attentions
from recap.papers.zodiac.zoneup import ZodiacMultiHead


def refined_weights(attention: ZodiacMultiHead, query: Rows, key_value: KeyValue, mask: Tensor | None) -> Tensor:
    """Return softmax(G(Q_1 K^T / sqrt(K))), [B, C, H, T, N]."""
    gelu, k = attention.gelu, key_value[0]
    q = query.map(gelu).map(attention.query).map(gelu).split_heads(attention.heads)
    scores = gelu(q / math.sqrt(k.shape[-1]) @ k.mT)
    return (scores if mask is None else scores.masked_fill(~mask[:, :, None], float("-inf"))).softmax(-1)


EXPLAINED = Explained(cross_attentions, refined_weights)
