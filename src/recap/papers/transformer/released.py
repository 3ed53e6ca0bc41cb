"""From the parameter names of ruotianluo/ImageCaptioning.pytorch's Transformer, also ZoDIAC's baseline, to ours."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import Tensor

from recap.models.released import SINUSOID, Options, Release, agree, layers, rename_annotated

# For `layer_norm: unbiased` (docs/reference/parameters.md).
rename_official = partial(rename_annotated, projections=("query", "key", "value", "output"))
OPTION_OF = {"max_length": ["max_length", "seq_length"]}


def annotated_settings(tensors: Mapping[str, Tensor], options: Options) -> dict[str, Any]:
    """Return the settings of a Transformer in the annotated form: sizes from shapes, heads from `infos`."""
    inner = tensors["encoder.0.feed_forward.inner.weight"]
    sizes = {"d_model": inner.shape[1], "d_feed_forward": inner.shape[0]}
    depths = {"encoder_layers": layers(tensors, "encoder"), "decoder_layers": layers(tensors, "decoder")}
    agree(options, {"N_enc": depths["encoder_layers"], "N_dec": depths["decoder_layers"], "use_bn": 0})
    return {**sizes, **depths, "heads": options.get("num_att_heads", 8), "layer_norm": "unbiased"}


def settings(tensors: Mapping[str, Tensor], options: Options) -> dict[str, Any]:
    """Return the settings of the Transformer that tensors belong to."""
    agree(options, {"caption_model": "transformer"})
    return {"kind": "transformer", **annotated_settings(tensors, options)}


RELEASE = Release(
    rename=rename_official,
    settings=settings,
    decoding={"beam": 5, "max_length": 20, "finished": "set_aside"},
    option_of=OPTION_OF,
    unused=[SINUSOID],
)
