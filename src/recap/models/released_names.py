"""From the parameter names of a released code base to ours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from torch import Tensor

from recap.core.errors import ConfigError

ANNOTATED = [
    (r"^att_embed\.0\.", "feature_embedding."),
    (r"^model\.tgt_embed\.0\.lut\.", "word_embedding."),
    (r"^model\.generator\.proj\.", "output."),
    (r"^model\.(encoder|decoder)\.norm\.", r"\1_norm."),
    (r"^model\.(encoder|decoder)\.layers\.(\d+)\.", r"\1.\2."),
    (r"\.self_attn\.", ".attention."),
    (r"\.src_attn\.", ".cross."),
    (r"\.feed_forward\.w_1\.", ".feed_forward.inner."),
    (r"\.feed_forward\.w_2\.", ".feed_forward.outer."),
    (r"\.sublayer\.0\.", ".around_attention."),
    (r"^(encoder\.\d+)\.sublayer\.1\.", r"\1.around_feed_forward."),
    (r"^(decoder\.\d+)\.sublayer\.1\.", r"\1.around_cross."),
    (r"^(decoder\.\d+)\.sublayer\.2\.", r"\1.around_feed_forward."),
    (r"\.a_2$", ".weight"),
    (r"\.b_2$", ".bias"),
]
"""Names of a Transformer in the Annotated Transformer's form (as in ruotianluo/ImageCaptioning.pytorch)."""


def rename_annotated(state: Mapping[str, Tensor], projections: Sequence[str]) -> dict[str, Tensor]:
    """Map the names of a Transformer in the Annotated Transformer's form to ours.

    `projections` are our names of an attention's `linears.0`, `linears.1` and so on.
    """
    linears = [(rf"\.linears\.{index}\.", f".{ours}.") for index, ours in enumerate(projections)]
    known = (
        r"(feature_embedding|word_embedding|output|encoder_norm|decoder_norm|(encoder|decoder)\.\d+\.("
        rf"(attention|cross)\.({'|'.join(projections)})|feed_forward\.(inner|outer)"
        r"|around_(attention|cross|feed_forward)\.norm))\.(weight|bias)"
    )
    return rename(state, [*ANNOTATED, *linears], known=known)


def rename(state: Mapping[str, Tensor], rules: Sequence[tuple[str, str]], *, known: str) -> dict[str, Tensor]:
    """Apply all rules (pattern and replacement) to every name, in order; what is not `known` then is refused."""
    renamed: dict[str, Tensor] = {}
    for name, value in state.items():
        ours = name
        for pattern, replacement in rules:
            ours = re.sub(pattern, replacement, ours)
        if not re.fullmatch(known, ours):
            raise ConfigError(
                f"parameter {name!r} is none of those that the release has; docs/guides/released_checkpoints.md lists "
                "what can be read"
            )
        renamed[ours] = value
    return renamed
