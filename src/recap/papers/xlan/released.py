"""From the parameter names of the released X-LAN (JDAI-CV/image-captioning) to ours."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from recap.models.released_names import X_LINEAR, rename


def rename_official(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map the released X-LAN's parameter names to ours (docs/parameters.md).

    Raises:
        ConfigError: a name is none of the released model's.
    """
    rules = [
        (r"^att_embed\.0\.", "feature_embedding."),
        (r"^encoder_layers\.layers\.(\d+)\.encoder_attn\.", r"encoder.blocks.\1."),
        (r"^encoder_layers\.bifeat_emb\.(\d+)\.0\.", r"encoder.mixes.\1.linear."),
        (r"^encoder_layers\.layer_norms\.(\d+)\.", r"encoder.mixes.\1.norm."),
        (r"^encoder_layers\.proj\.", "encoder.projection."),
        (r"^encoder_layers\.layer_norm\.", "encoder.norm."),
        (r"^word_embed\.0\.", "word_embedding."),
        (r"^att_lstm\.", "lstm."),
        (r"^attention\.layers\.0\.encoder_attn\.", "attention."),
        (r"^attention\.proj\.", "attended.linear."),
        (r"^attention\.layer_norm\.", "attended.norm."),
        (r"^att2ctx\.0\.", "attended.gate."),
        (r"^logit\.", "output."),
        *X_LINEAR,
    ]
    known = r"(feature_embedding|encoder|word_embedding|lstm|attention|attended|output)\..*(weight|bias)(_[ih]h)?"
    return rename(state, rules, known=known)
