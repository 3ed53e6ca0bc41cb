"""What the Fusion Transformer looked at in its grid: the fusion attention G_t of all decoder layers (Eq. 19)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recap.models.explained import Explained
from recap.nn.attention import Attention


def grid_attentions(model: Any) -> Sequence[Attention]:
    """Return the fusion attentions over the grid."""
    return [layer.fusion.grid for layer in model.layers]


EXPLAINED = Explained(grid_attentions)
