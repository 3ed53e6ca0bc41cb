"""From the parameter names of the released X-LAN (JDAI-CV/image-captioning) to ours."""

from __future__ import annotations

from functools import partial

from recap.models.released_names import rename

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


RULES = [
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
KNOWN = r"(feature_embedding|encoder|word_embedding|lstm|attention|attended|output)\..*(weight|bias)(_[ih]h)?"
rename_official = partial(rename, rules=RULES, known=KNOWN)
