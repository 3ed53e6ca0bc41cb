"""From the names of Vision-CAIR/VisualGPT and its baselines to ours (parameters.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from recap.papers.m2.released import LAYER_RULES
from recap.runs.pretrained import rename_gpt2
from recap.runs.released import BUFFERS, Options, Release, layers, rename

ENCODER = {  # that of the released M2, and the AoA Transformer's
    **LAYER_RULES,
    r"^encoder\.layers\.(\d+)\.aoa_layer\.0\.": r"encoder.\1.aoa.linear.",
}
BLOCK = {
    r"^h\.(\d+)\.": r"decoder.blocks.\1.",
    r"\.enc_dec_attn\.fc_q\.": ".cross.query.",
    r"\.enc_dec_attn\.fc_k\.": ".cross.key.",
    r"\.enc_dec_attn\.fc_v\.": ".cross.value.",
    r"\.enc_dec_attn\.c_proj\.": ".cross.output.",
    r"\.(?:enc_dec_attn\.)?aoa_layer\.0\.": ".fusion.aoa.linear.",
    r"\.fc_alpha1\.": ".fusion.gate.gates.0.",
    r"\.fc_alpha2\.": ".fusion.gate.gates.1.",
    r"\.fc_alpha3\.": ".fusion.gate.gates.2.",
}
# parts of a block that GPT-2 does not have
ADDED = re.compile(r"h\.\d+\.(enc_dec_attn|fc_alpha\d|aoa_layer)\.")
# What no forward pass reads; the square matrices of the decoder have 21.3 M numbers.
NOT_USED = "a matrix that its forward pass does not use"
UNUSED = {
    r"h\.\d+\.enc_dec_attn\.c_attn\.(weight|bias)$": NOT_USED,
    r"mhatt\.attention\.c_attn_(query|key|value)\.(weight|bias)$": NOT_USED,
    r"h\.\d+\.(attn|enc_dec_attn)\.(bias|masked_bias)$": "a causal mask, which is computed",
    r"lm_head\.(decoder\.)?weight$": "the word table under its second name",
    **BUFFERS,
}


def rename_official(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map VisualGPT's parameter names to ours."""
    encoder, added, gpt2 = {}, {}, {}
    for name, value in state.items():
        short = name.removeprefix("decoder.").removeprefix("transformer.")
        if name.startswith("encoder."):
            encoder[name] = value
        elif ADDED.match(short):
            # GPT-2's layers are (in, out)
            added[short] = value.T if "c_proj.weight" in short else value
        else:
            gpt2[short] = value
    renamed = {f"decoder.{name}": value for name, value in rename_gpt2(gpt2).items()}
    return rename(encoder, ENCODER) | rename(added, BLOCK) | renamed


def settings(tensors: Mapping[str, Tensor], _: Options) -> dict[str, Any]:
    """Return sizes from shapes, parts from names.

    Heads are 64 wide, tau is an option of the release's command.
    """
    inner = tensors["encoder.0.feed_forward.inner.weight"]
    gpt2 = tensors["decoder.blocks.0.feed_forward.inner.weight"]
    memory = any("memory_key" in name for name in tensors)
    refined = any(name.startswith("encoder.") and ".aoa." in name for name in tensors)
    if refined:
        fusion = "aoa_baseline"
    elif any(".aoa." in name for name in tensors):
        fusion = "aoa"
    elif not any(".fusion.gate." in name for name in tensors):
        fusion = "plain"
    elif memory:
        fusion = "meshed"
    else:
        fusion = "srau"
    encoder: dict[str, Any] = {"encoder": "aoa_baseline" if refined else "plain"}
    if memory:
        slots = tensors["encoder.0.attention.memory_key"].shape[-2]
        encoder = {"encoder": "memory", "memory_slots": slots}
    return {
        "kind": "visual_gpt",
        "d_model": gpt2.shape[1],
        "heads": max(1, gpt2.shape[1] // 64),
        "d_feed_forward": gpt2.shape[0],
        "decoder_layers": layers(tensors, "decoder.blocks"),
        "positions": len(tensors["decoder.position_embedding.weight"]),
        "encoder_layers": layers(tensors, "encoder"),
        "d_encoder_feed_forward": inner.shape[0],
        **encoder,
        "fusion": fusion,
        "max_vectors": 50,
        "padded_vectors": "attended",
        "pretrained": False,
    }


RELEASE = Release(
    rename=rename_official,
    settings=settings,
    decoding={"beam": 5, "max_length": 20, "merge_repeats": True},
    words="byte_pairs",
    unused=UNUSED,
    tables=("decoder.word_embedding.weight",),
)
