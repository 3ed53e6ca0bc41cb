"""From the parameter names of VisualGPT's code base (Vision-CAIR/VisualGPT), and of its baselines, to ours."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

from recap.models.gpt2_weights import rename_gpt2
from recap.models.released_names import BUFFERS, rename
from recap.papers.m2.released import LAYER_RULES

ENCODER = [  # that of the released M2, and the AoA Transformer's
    *LAYER_RULES,
    (r"^encoder\.layers\.(\d+)\.aoa_layer\.0\.", r"encoder.\1.aoa.linear."),
]
BLOCK = [
    (r"^h\.(\d+)\.", r"decoder.blocks.\1."),
    (r"\.enc_dec_attn\.fc_q\.", ".cross.query."),
    (r"\.enc_dec_attn\.fc_k\.", ".cross.key."),
    (r"\.enc_dec_attn\.fc_v\.", ".cross.value."),
    (r"\.enc_dec_attn\.c_proj\.", ".cross.output."),
    (r"\.(?:enc_dec_attn\.)?aoa_layer\.0\.", ".fusion.aoa.linear."),
    (r"\.fc_alpha1\.", ".fusion.gate.gates.0."),
    (r"\.fc_alpha2\.", ".fusion.gate.gates.1."),
    (r"\.fc_alpha3\.", ".fusion.gate.gates.2."),
]
KNOWN = (
    r"(feature_embedding|feature_norm)\.(weight|bias)"
    r"|encoder\.\d+\.(attention|around_attention|feed_forward|around_feed_forward|aoa)\."
    r"(((query|key|value|output|norm|inner|outer|linear)\.)(weight|bias)|memory_(key|value))"
    r"|decoder\.blocks\.\d+\.(cross\.(query|key|value|output)|fusion\.(aoa\.linear|gate\.gates\.[012]))\.(weight|bias)"
)
ADDED = re.compile(r"h\.\d+\.(enc_dec_attn|fc_alpha\d|aoa_layer)\.")  # parts of a block that GPT-2 does not have
# What no forward pass reads: square matrices (21.3 M in the decoder), masks, and the word table under its second name.
UNUSED = re.compile(
    r"h\.\d+\.enc_dec_attn\.(c_attn\.(weight|bias)|bias|masked_bias)|lm_head\.decoder\.weight"
    r"|encoder\.layers\.\d+\.mhatt\.attention\.c_attn_(query|key|value)\.(weight|bias)"
)


def rename_official(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map VisualGPT's parameter names to ours (docs/reference/parameters.md).

    Raises:
        ConfigError: a name is none of the released model's.
    """
    encoder: dict[str, Tensor] = {}
    added: dict[str, Tensor] = {}
    gpt2: dict[str, Tensor] = {}
    for name, value in state.items():
        short = name.removeprefix("decoder.").removeprefix("transformer.")
        if UNUSED.fullmatch(short) or BUFFERS.search(name):
            continue
        if name.startswith("encoder."):
            encoder[name] = value
        elif ADDED.match(short):
            added[short] = value.T if "c_proj.weight" in short else value  # GPT-2's layers are (in, out)
        else:
            gpt2[short] = value
    renamed = {f"decoder.{name}": value for name, value in rename_gpt2(gpt2).items()}
    return rename(encoder, ENCODER, known=KNOWN) | rename(added, BLOCK, known=KNOWN) | renamed
