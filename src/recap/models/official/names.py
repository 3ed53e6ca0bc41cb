"""From the parameter names of a released code base to ours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from torch import Tensor

from recap.core.errors import ConfigError

X_LINEAR = [
    (r"in_proj_k\.", "key."),
    (r"in_proj_q\.", "query_key."),
    (r"in_proj_v1\.", "query_value."),
    (r"in_proj_v2\.", "value."),
    (r"attn_net\.attention_basic\.0\.", "joint."),
    (r"attn_net\.attention_last\.", "spatial."),
    (r"attn_net\.attention_last2\.", "channel."),
    (r"((?:key|query_key|query_value|value)\.)0\.", r"\1linear."),
    (r"((?:key|query_key|query_value|value)\.)2\.", r"\1norm."),
]
"""Names within an X-Linear block, whatever their prefix."""


def rename(state: Mapping[str, Tensor], rules: Sequence[tuple[str, str]], *, known: str) -> dict[str, Tensor]:
    """Apply all rules to every name, in order.

    Args:
        state: official name -> tensor.
        rules: pattern and replacement.
        known: pattern that a renamed name must match as a whole.

    Raises:
        ConfigError: a name is none of the release's.
    """
    renamed: dict[str, Tensor] = {}
    for name, value in state.items():
        ours = name
        for pattern, replacement in rules:
            ours = re.sub(pattern, replacement, ours)
        if not re.fullmatch(known, ours):
            raise ConfigError(f"parameter {name!r} is none of the released model's; give its own state dict")
        renamed[ours] = value
    return renamed
