"""What the Transformer looked at: the cross-attention of all its decoder layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recap.models.explained import Explained
from recap.nn.attention import Attention


def cross_attentions(model: Any) -> Sequence[Attention]:
    """Return the cross-attentions of a decoder's layers."""
    return [layer.cross for layer in model.layers]


EXPLAINED = Explained(cross_attentions)
