"""From the parameter names of the released AoANet (husthuaan/AoANet) to ours
(docs/reference/parameters.md)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import Tensor

from recap.runs.released import Options, Release, agree, layers, rename

BLOCK_RULES = {  # names within an attention of the refiner, whatever their prefix
    r"linears\.0\.": "attention.query.",
    r"linears\.1\.": "attention.key.",
    r"linears\.2\.": "attention.value.",
    r"aoa_layer\.0\.": "aoa.linear.",
}
NAMES = {
    r"^att_embed\.0\.": "feature_embedding.",
    r"^refiner\.layers\.(\d+)\.\w+\.(?=linears|aoa_layer)": r"refiner.\1.attention.",
    r"^refiner\.layers\.(\d+)\.sublayer\.0\.norm\.": r"refiner.\1.around.norm.",
    r"^refiner\.norm\.": "refiner_norm.",
    r"^embed\.0\.": "word_embedding.",
    r"^core\.att_lstm\.": "lstm.",
    r"^core\.attention\.norm\.": "query_norm.",
    r"^core\.attention\.linears\.0\.": "attention.query.",
    r"^core\.att2ctx\.0\.": "aoa.linear.",
    r"^ctx2att\.": "attention.value+key.",
    r"^logit\.": "output.",
    **BLOCK_RULES,
    r"\.a_2$": ".weight",
    r"\.b_2$": ".bias",
}


rename_official = partial(rename, rules=NAMES)


def settings(tensors: Mapping[str, Tensor], options: Options) -> dict[str, Any]:
    """Return the AoANet's settings: sizes from the tensors' shapes, heads from `infos`."""
    modes = {
        "caption_model": "aoa",
        "refine": 1,
        "refine_aoa": 1,
        "use_ff": 0,
        "decoder_type": "AoA",
        "mean_feats": 1,
    }
    agree(options, {**modes, "multi_head_scale": 1})
    return {
        "kind": "aoanet",
        "d_model": tensors["word_embedding.weight"].shape[1],
        "heads": options.get("num_heads", 8),
        "refiner_layers": layers(tensors, "refiner"),
    }


RELEASE = Release(
    rename=rename_official,
    settings=settings,
    decoding={"beam": 2, "max_length": 20, "finished": "set_aside"},
)
