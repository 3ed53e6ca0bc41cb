"""From the parameter names of the X-LAN code base's Up-Down (JDAI-CV/image-captioning) to ours."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from recap.models.released_names import rename


def rename_official(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map the parameter names of the X-LAN code base's Up-Down to ours (docs/parameters.md).

    Raises:
        ConfigError: a name is none of the released model's.
    """
    rules = [
        (r"^att_embed\.0\.", "feature_embedding."),
        (r"^word_embed\.0\.", "word_embedding."),
        (r"^lstm1\.", "attention_lstm."),
        (r"^lstm2\.", "language_lstm."),
        (r"^p_att_feats\.", "attention.key."),
        (r"^att\.Wah\.", "attention.query."),
        (r"^att\.alpha\.", "attention.score."),
        (r"^logit\.", "output."),
    ]
    known = (
        r"(feature_embedding|word_embedding|attention_lstm|language_lstm|attention|output)\..*(weight|bias)(_[ih]h)?"
    )
    return rename(state, rules, known=known)
