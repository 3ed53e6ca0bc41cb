"""From the parameter names of the X-LAN code base's Up-Down (JDAI-CV/image-captioning) to ours."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import Tensor

from recap.models.released import Options, Release, agree, rename

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


def settings(tensors: Mapping[str, Tensor], options: Options) -> dict[str, Any]:
    """Return the settings of the Up-Down that tensors belong to: sizes from shapes, activations from `config.yml`."""
    agree(options, {"MODEL.TYPE": "UpDown"})
    embedding = tensors.get("feature_embedding.weight")
    return {
        "kind": "up_down",
        "d_model": tensors["attention_lstm.weight_hh"].shape[1],
        "d_word": tensors["word_embedding.weight"].shape[1],
        "d_attention": len(tensors["attention.query.weight"]),
        "d_feature": 0 if embedding is None else len(embedding),
        "attention_activation": str(options.get("MODEL.ATT_ACT", "RELU")).lower(),
        "word_activation": str(options.get("MODEL.WORD_EMBED_ACT", "NONE")).lower(),
    }


RELEASE = Release(
    rename=rename_official,
    settings=settings,
    decoding={"beam": 3, "max_length": 17},
    option_of={"beam": ["INFERENCE.BEAM_SIZE"], "max_length": ["MODEL.SEQ_LEN"]},
    features=("feature_embedding.weight", "attention.key.weight"),
)
