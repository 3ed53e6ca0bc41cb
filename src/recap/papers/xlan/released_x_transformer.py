"""From the parameter names of the released X-Transformer (JDAI-CV/image-captioning) to ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from recap.core.errors import ConfigError
from recap.models.released import Options, Release, agree, layers, rename
from recap.nn.layers import sinusoid_table
from recap.papers.xlan.released import BLOCK, OPTION_OF, X_LINEAR, x_linear_settings
from recap.papers.xlan.x_transformer import MAX_POSITIONS

LAYER_RULES = [
    (r"^((?:encoder|decoder)\.\d+\.)bifeat_emb\.0\.", r"\1update.mix.linear."),
    (r"^((?:encoder|decoder)\.\d+\.)layer_norm(?:_x)?\.", r"\1update.mix.norm."),
    (r"^((?:encoder|decoder)\.\d+\.)ff_layer\.fc1\.", r"\1update.feed_forward.inner."),
    (r"^((?:encoder|decoder)\.\d+\.)ff_layer\.fc2\.", r"\1update.feed_forward.outer."),
    (r"^((?:encoder|decoder)\.\d+\.)ff_layer\.layer_norms\.", r"\1update.around_feed_forward.norm."),
    (r"^(encoder\.\d+\.)encoder_attn\.", r"\1block."),
    (r"^(decoder\.\d+\.)word_attn\.", r"\1words."),
    (r"^(decoder\.\d+\.)cross_att\.", r"\1image."),
    (r"^(decoder\.\d+\.)layer_norm_cross\.", r"\1words_norm."),
    (r"^(decoder\.\d+\.)layer_norm_gx\.", r"\1image_norm."),
]
POSITIONS = re.compile(r"position|(^|\.)pe$")
KNOWN = (
    r"(feature_embedding|feature_norm|global_projection|global_norm|word_embedding|word_norm|read_off|output_norm|output"
    r"|(image|word)_side\.(linear|norm)|encoder\.\d+\.(block|update)\..+|decoder\.\d+\.(words|image|update)\..+"
    r"|decoder\.\d+\.(words|image)_norm)\.(weight|bias)"
)


def rename_official(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map the released X-Transformer's parameter names to ours (docs/reference/parameters.md).

    Its table of positions is cut to our length. Where the state has none, or one that is the beginning of ours, the
    table is computed.
    """
    own = {name: value for name, value in state.items() if not POSITIONS.search(name)}
    tables = [value for name, value in state.items() if POSITIONS.search(name)]
    rules = [
        (r"^att_embed\.0\.", "feature_embedding."),
        (r"^att_embed\.2\.", "feature_norm."),
        (r"^encoder\.proj_norm\.0\.", "global_projection."),
        (r"^encoder\.proj_norm\.1\.", "global_norm."),
        (r"^encoder\.(?:layers\.)?(\d+)\.", r"encoder.\1."),
        (r"^decoder\.(?:layers\.)?(\d+)\.", r"decoder.\1."),
        *LAYER_RULES,
        (r"^decoder\.embed_tokens\.", "word_embedding."),
        (r"^decoder\.layer_norm_word\.", "word_norm."),
        (r"^decoder\.wbil1\.0\.", "image_side.linear."),
        (r"^decoder\.wbil1\.2\.", "image_side.norm."),
        (r"^decoder\.wbil2\.0\.", "word_side.linear."),
        (r"^decoder\.wbil2\.2\.", "word_side.norm."),
        (r"^decoder\.proj_norm\.0\.", "read_off."),
        (r"^decoder\.proj_norm\.2\.", "output_norm."),
        (r"^decoder\.generator\.", "output."),
        *X_LINEAR,
    ]
    renamed = rename(own, rules, known=KNOWN)
    width = renamed["word_embedding.weight"].shape[1]
    renamed["positions"] = _positions(tables[0].reshape(-1, width) if tables else torch.empty(0, width))
    return renamed


def _positions(table: Tensor) -> Tensor:
    """Return a table of our length whose beginning is the given one."""
    if len(table) >= MAX_POSITIONS:
        return table[:MAX_POSITIONS]
    ours = sinusoid_table(MAX_POSITIONS, table.shape[1], torch.float32)
    if not torch.allclose(table.float(), ours[: len(table)], atol=1e-5):
        raise ConfigError(
            f"the table of positions has {len(table)} rows that are no sinusoids, and the model has {MAX_POSITIONS} "
            "positions; give a state dict with as many rows"
        )
    return ours


def settings(tensors: Mapping[str, Tensor], options: Options) -> dict[str, Any]:
    """Return the settings of the X-Transformer of these tensors: sizes from shapes, the rest from `config.yml`."""
    depths = {"encoder_layers": layers(tensors, "encoder"), "decoder_layers": layers(tensors, "decoder")}
    agree(
        options,
        {
            "MODEL.TYPE": "XTransformer",
            f"{BLOCK}.ENCODE_LAYERS": depths["encoder_layers"],
            f"{BLOCK}.DECODE_LAYERS": depths["decoder_layers"],
        },
    )
    most = options.get("DATA_LOADER.MAX_FEAT", -1 if options else 50)  # without its file: as its published one has it
    width = len(tensors["feature_embedding.weight"])
    return {
        "kind": "x_transformer",
        **x_linear_settings(tensors["decoder.0.image.joint.weight"], width, options),
        "d_feed_forward": len(tensors["decoder.0.update.feed_forward.inner.weight"]),
        **depths,
        "max_vectors": None if most == -1 else most,
    }


RELEASE = Release(
    rename=rename_official, settings=settings, decoding={"beam": 2, "max_length": 17}, option_of=OPTION_OF
)
