"""From the parameter names of the released ZoDIAC (zanyarz/zodiac) to ours."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from recap.models.released_names import rename_annotated


def rename_official(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map the released ZoDIAC's parameter names to ours (docs/parameters.md), for `layer_norm: unbiased`.

    Raises:
        ConfigError: a name is none of the released model's.
    """
    return rename_annotated(state, ("query", "intensity_query", "key", "value", "output"))
