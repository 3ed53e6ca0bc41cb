"""From the parameter names of the released AoANet (husthuaan/AoANet) to ours."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from recap.models.released_names import rename

NORM = [(r"\.a_2$", ".weight"), (r"\.b_2$", ".bias")]
BLOCK_RULES = [
    (r"linears\.0\.", "attention.query."),
    (r"linears\.1\.", "attention.key."),
    (r"linears\.2\.", "attention.value."),
    (r"aoa_layer\.0\.", "aoa.linear."),
]
"""Names within an attention of the refiner, whatever their prefix."""
KNOWN = (
    r"(feature_embedding|word_embedding|refiner_norm|query_norm|aoa\.linear|attention\.(query|key|value)|output"
    r"|refiner\.\d+\.(around\.norm|attention\.(aoa\.linear|attention\.(query|key|value))))\.(weight|bias)"
    r"|lstm\.(weight|bias)_[ih]h"
)


def rename_official(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map the released AoANet's parameter names to ours (docs/reference/parameters.md).

    One linear layer of its decoder makes values and keys, in this order; it is split.

    Raises:
        ConfigError: a name is none of the released model's.
    """
    split: dict[str, Tensor] = {}
    for name, value in state.items():
        if name.startswith("ctx2att."):
            kind = name.removeprefix("ctx2att.")
            split[f"attention.value.{kind}"], split[f"attention.key.{kind}"] = value.chunk(2)
        else:
            split[name] = value
    rules = [
        (r"^att_embed\.0\.", "feature_embedding."),
        (r"^refiner\.layers\.(\d+)\.\w+\.(?=linears|aoa_layer)", r"refiner.\1.attention."),
        (r"^refiner\.layers\.(\d+)\.sublayer\.0\.norm\.", r"refiner.\1.around.norm."),
        (r"^refiner\.norm\.", "refiner_norm."),
        (r"^embed\.0\.", "word_embedding."),
        (r"^core\.att_lstm\.", "lstm."),
        (r"^core\.attention\.norm\.", "query_norm."),
        (r"^core\.attention\.linears\.0\.", "attention.query."),
        (r"^core\.att2ctx\.0\.", "aoa.linear."),
        (r"^logit\.", "output."),
        *BLOCK_RULES,
        *NORM,
    ]
    return rename(split, rules, known=KNOWN)
