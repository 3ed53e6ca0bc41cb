"""From the names of the released M2 (aimagelab/meshed-memory-transformer) to ours
(docs/reference/parameters.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from recap.runs.released import BUFFERS, Options, Release, layers, rename

LAYER_RULES = {
    r"^encoder\.fc\.": "feature_embedding.",
    r"^encoder\.layer_norm\.": "feature_norm.",
    r"^(encoder\.)layers\.(\d+\.)mhatt\.attention\.": r"\1\2attention.",
    r"^(encoder\.)layers\.(\d+\.)mhatt\.layer_norm\.": r"\1\2around_attention.norm.",
    r"^(decoder\.)layers\.(\d+\.)self_att\.attention\.": r"\1\2attention.",
    r"^(decoder\.)layers\.(\d+\.)self_att\.layer_norm\.": r"\1\2around_attention.norm.",
    r"^(decoder\.)layers\.(\d+\.)enc_att\.attention\.": r"\1\2cross.",
    r"^(decoder\.)layers\.(\d+\.)enc_att\.layer_norm\.": r"\1\2around_cross.norm.",
    r"^(decoder\.)layers\.(\d+\.)fc_alpha1\.": r"\1\2mesh.gates.0.",
    r"^(decoder\.)layers\.(\d+\.)fc_alpha2\.": r"\1\2mesh.gates.1.",
    r"^(decoder\.)layers\.(\d+\.)fc_alpha3\.": r"\1\2mesh.gates.2.",
    r"^((?:en|de)coder\.)layers\.(\d+\.)pwff\.fc1\.": r"\1\2feed_forward.inner.",
    r"^((?:en|de)coder\.)layers\.(\d+\.)pwff\.fc2\.": r"\1\2feed_forward.outer.",
    r"^((?:en|de)coder\.)layers\.(\d+\.)pwff\.layer_norm\.": r"\1\2around_feed_forward.norm.",
    r"\.fc_q\.": ".query.",
    r"\.fc_k\.": ".key.",
    r"\.fc_v\.": ".value.",
    r"\.fc_o\.": ".output.",
    r"\.m_k$": ".memory_key",
    r"\.m_v$": ".memory_value",
}
WORD_RULES = {
    r"^decoder\.word_emb\.": "word_embedding.",
    r"^decoder\.pos_emb\.weight$": "positions",
    r"^decoder\.fc\.": "output.",
}


def rename_official(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map the names, for `positions: noise`.

    Row 0 of its table of positions is of padding and left out.
    """
    renamed = rename(state, LAYER_RULES | WORD_RULES)
    if "positions" in renamed:
        renamed["positions"] = renamed["positions"][1:]
    return renamed


def settings(tensors: Mapping[str, Tensor], _: Options) -> dict[str, Any]:
    """Return the settings that tensors have.

    8 heads and 50 vectors are written in the release's code.
    """
    inner = tensors["encoder.0.feed_forward.inner.weight"]
    return {
        "kind": "m2",
        "d_model": inner.shape[1],
        "d_feed_forward": inner.shape[0],
        "encoder_layers": layers(tensors, "encoder"),
        "decoder_layers": layers(tensors, "decoder"),
        "memory_slots": tensors["encoder.0.attention.memory_key"].shape[-2],
        "max_tokens": len(tensors["positions"]),
        "positions": "noise",
        "memory_init": "xavier",
        "max_vectors": 50,
        "padded_vectors": "attended",
    }


RELEASE = Release(
    rename=rename_official,
    settings=settings,
    decoding={"beam": 5, "max_length": 20, "merge_repeats": True},
    words="torchtext",
    unused=BUFFERS,
    tables=("word_embedding.weight", "output.weight"),
)
