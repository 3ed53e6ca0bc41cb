"""From the parameter names of the released X-LAN (JDAI-CV/image-captioning) to ours."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import Tensor

from recap.models.released import Options, Release, agree, layers, rename

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
OPTION_OF = {"beam": ["INFERENCE.BEAM_SIZE"], "max_length": ["MODEL.SEQ_LEN"]}
BLOCK = "MODEL.BILINEAR"


def x_linear_settings(joint: Tensor, d_model: int, options: Options) -> dict[str, Any]:
    """Return the settings of X-Linear blocks whose shared matrix W_B^k is [J, D / H]."""
    heads = d_model // joint.shape[1]
    agree(options, {f"{BLOCK}.HEAD": heads, f"{BLOCK}.BIFEAT_EMB_ACT": "RELU", "MODEL.WORD_EMBED_ACT": "CELU"})
    return {
        "d_model": d_model,
        "heads": heads,
        "d_joint": joint.shape[0],
        "activation": str(options.get(f"{BLOCK}.ACT", "CELU")).lower(),
        "alpha": options.get(f"{BLOCK}.ELU_ALPHA", 1.3),
    }


def settings(tensors: Mapping[str, Tensor], options: Options) -> dict[str, Any]:
    """Return the settings of the X-LAN that tensors belong to: sizes from shapes, activations from `config.yml`."""
    blocks = layers(tensors, "encoder.blocks")
    agree(options, {"MODEL.TYPE": "XLAN", f"{BLOCK}.ENCODE_LAYERS": blocks, "MODEL.ATT_FEATS_EMBED_ACT": "CELU"})
    sizes = x_linear_settings(tensors["attention.joint.weight"], len(tensors["feature_embedding.weight"]), options)
    return {"kind": "xlan", **sizes, "encoder_layers": blocks}


RELEASE = Release(
    rename=rename_official,
    settings=settings,
    decoding={"beam": 3, "max_length": 17, "finished": "set_aside"},
    option_of=OPTION_OF,
)
