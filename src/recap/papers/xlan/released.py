"""From the names of the released X-LAN and X-Transformer (JDAI-CV/image-captioning) to ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from recap.core.errors import ConfigError
from recap.nn.layers import sinusoid_table
from recap.papers.xlan.model import MAX_POSITIONS
from recap.runs.released import Options, Release, agree, layers, rename

BLOCK = "MODEL.BILINEAR"  # options of the blocks
X_LINEAR = {  # names within an X-Linear block, whatever their prefix
    r"in_proj_k\.": "key.",
    r"in_proj_q\.": "query_key.",
    r"in_proj_v1\.": "query_value.",
    r"in_proj_v2\.": "value.",
    r"attn_net\.attention_basic\.0\.": "joint.",
    r"attn_net\.attention_last\.": "spatial.",
    r"attn_net\.attention_last2\.": "channel.",
    r"((?:key|query_key|query_value|value)\.)0\.": r"\1linear.",
    r"((?:key|query_key|query_value|value)\.)2\.": r"\1norm.",
}
XLAN_RULES = {
    r"^att_embed\.0\.": "feature_embedding.",
    r"^encoder_layers\.layers\.(\d+)\.encoder_attn\.": r"encoder.blocks.\1.",
    r"^encoder_layers\.bifeat_emb\.(\d+)\.0\.": r"encoder.mixes.\1.linear.",
    r"^encoder_layers\.layer_norms\.(\d+)\.": r"encoder.mixes.\1.norm.",
    r"^encoder_layers\.proj\.": "encoder.projection.",
    r"^encoder_layers\.layer_norm\.": "encoder.norm.",
    r"^word_embed\.0\.": "word_embedding.",
    r"^att_lstm\.": "lstm.",
    r"^attention\.layers\.0\.encoder_attn\.": "attention.",
    r"^attention\.proj\.": "attended.linear.",
    r"^attention\.layer_norm\.": "attended.norm.",
    r"^att2ctx\.0\.": "attended.gate.",
    r"^logit\.": "output.",
    **X_LINEAR,
}
X_TRANSFORMER_RULES = {
    r"^att_embed\.0\.": "feature_embedding.",
    r"^att_embed\.2\.": "feature_norm.",
    r"^encoder\.proj_norm\.0\.": "global_projection.",
    r"^encoder\.proj_norm\.1\.": "global_norm.",
    r"^(encoder|decoder)\.(?:layers\.)?(\d+)\.": r"\1.\2.",
    r"^((?:encoder|decoder)\.\d+\.)bifeat_emb\.0\.": r"\1update.mix.linear.",
    r"^((?:encoder|decoder)\.\d+\.)layer_norm(?:_x)?\.": r"\1update.mix.norm.",
    r"^((?:encoder|decoder)\.\d+\.)ff_layer\.fc1\.": r"\1update.feed_forward.inner.",
    r"^((?:encoder|decoder)\.\d+\.)ff_layer\.fc2\.": r"\1update.feed_forward.outer.",
    r"^((?:encoder|decoder)\.\d+\.)ff_layer\.layer_norms\.": r"\1update.around_feed_forward.norm.",
    r"^(encoder\.\d+\.)encoder_attn\.": r"\1block.",
    r"^(decoder\.\d+\.)word_attn\.": r"\1words.",
    r"^(decoder\.\d+\.)cross_att\.": r"\1image.",
    r"^(decoder\.\d+\.)layer_norm_cross\.": r"\1words_norm.",
    r"^(decoder\.\d+\.)layer_norm_gx\.": r"\1image_norm.",
    r"^decoder\.embed_tokens\.": "word_embedding.",
    r"^decoder\.layer_norm_word\.": "word_norm.",
    r"^decoder\.wbil1\.0\.": "image_side.linear.",
    r"^decoder\.wbil1\.2\.": "image_side.norm.",
    r"^decoder\.wbil2\.0\.": "word_side.linear.",
    r"^decoder\.wbil2\.2\.": "word_side.norm.",
    r"^decoder\.proj_norm\.0\.": "read_off.",
    r"^decoder\.proj_norm\.2\.": "output_norm.",
    r"^decoder\.generator\.": "output.",
    **X_LINEAR,
}
POSITIONS = re.compile(r"position|(^|\.)pe$")


def rename_x_transformer(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map the names of the released X-Transformer;
    its table of positions is cut to our length, or computed.

    It is computed where the state has none, or one that is the beginning of ours.
    """
    own = {name: value for name, value in state.items() if not POSITIONS.search(name)}
    renamed = rename(own, X_TRANSFORMER_RULES)
    width = renamed["word_embedding.weight"].shape[1]
    tables = (value for name, value in state.items() if POSITIONS.search(name))
    table = next(tables, torch.empty(0)).reshape(-1, width)[:MAX_POSITIONS]
    if len(table) < MAX_POSITIONS:
        sinusoids = sinusoid_table(MAX_POSITIONS, width)
        if not torch.allclose(table.float(), sinusoids[: len(table)], atol=1e-5):
            raise ConfigError(
                f"the table of positions has {len(table)} rows that are no sinusoids, and the "
                f"model has {MAX_POSITIONS} positions; give a state dict with as many rows"
            )
        table = sinusoids
    return {**renamed, "positions": table}


def block_settings(joint: Tensor, d_model: int, options: Options) -> dict[str, Any]:
    """Return the settings of X-Linear blocks whose shared matrix W_B^k is [J, D / H]."""
    heads = d_model // joint.shape[1]
    agree(
        options,
        {f"{BLOCK}.HEAD": heads, f"{BLOCK}.BIFEAT_EMB_ACT": "RELU", "MODEL.WORD_EMBED_ACT": "CELU"},
    )
    return {
        "d_model": d_model,
        "heads": heads,
        "d_joint": joint.shape[0],
        "activation": str(options.get(f"{BLOCK}.ACT", "CELU")).lower(),
        "alpha": options.get(f"{BLOCK}.ELU_ALPHA", 1.3),
    }


def xlan_settings(tensors: Mapping[str, Tensor], options: Options) -> dict[str, Any]:
    """Return the X-LAN's settings: sizes from shapes, activations from `config.yml`."""
    blocks = layers(tensors, "encoder.blocks")
    agree(
        options,
        {
            "MODEL.TYPE": "XLAN",
            f"{BLOCK}.ENCODE_LAYERS": blocks,
            "MODEL.ATT_FEATS_EMBED_ACT": "CELU",
        },
    )
    sizes = block_settings(
        tensors["attention.joint.weight"], len(tensors["feature_embedding.weight"]), options
    )
    return {"kind": "xlan", **sizes, "encoder_layers": blocks}


def x_transformer_settings(tensors: Mapping[str, Tensor], options: Options) -> dict[str, Any]:
    """Return the X-Transformer's settings: sizes from shapes, the rest from `config.yml`."""
    encoder = layers(tensors, "encoder")
    decoder = layers(tensors, "decoder")
    depths = {f"{BLOCK}.ENCODE_LAYERS": encoder, f"{BLOCK}.DECODE_LAYERS": decoder}
    agree(options, {"MODEL.TYPE": "XTransformer", **depths})
    # without its file: as its published one has it
    most = options.get("DATA_LOADER.MAX_FEAT", -1 if options else 50)
    width = len(tensors["feature_embedding.weight"])
    return {
        "kind": "x_transformer",
        **block_settings(tensors["decoder.0.image.joint.weight"], width, options),
        "d_feed_forward": len(tensors["decoder.0.update.feed_forward.inner.weight"]),
        "encoder_layers": encoder,
        "decoder_layers": decoder,
        "max_vectors": None if most == -1 else most,
    }


XLAN = Release(
    rename=partial(rename, rules=XLAN_RULES),
    settings=xlan_settings,
    decoding={"beam": 3, "max_length": 17, "finished": "set_aside"},
)
X_TRANSFORMER = Release(
    rename=rename_x_transformer,
    settings=x_transformer_settings,
    decoding={"beam": 2, "max_length": 17},
)
