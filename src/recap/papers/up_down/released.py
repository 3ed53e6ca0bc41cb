"""From the parameter names of the X-LAN code base's Up-Down (JDAI-CV/image-captioning) to ours."""

from __future__ import annotations

from functools import partial

from recap.models.released_names import rename

RULES = [
    (r"^att_embed\.0\.", "feature_embedding."),
    (r"^word_embed\.0\.", "word_embedding."),
    (r"^lstm1\.", "attention_lstm."),
    (r"^lstm2\.", "language_lstm."),
    (r"^p_att_feats\.", "attention.key."),
    (r"^att\.Wah\.", "attention.query."),
    (r"^att\.alpha\.", "attention.score."),
    (r"^logit\.", "output."),
]
KNOWN = r"(feature_embedding|word_embedding|attention_lstm|language_lstm|attention|output)\..*(weight|bias)(_[ih]h)?"
rename_official = partial(rename, rules=RULES, known=KNOWN)
