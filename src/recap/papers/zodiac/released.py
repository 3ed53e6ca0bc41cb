"""From the parameter names of the released ZoDIAC (zanyarz/zodiac) to ours."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import Tensor

from recap.core.errors import ConfigError
from recap.models.released import SINUSOID, Options, Release, rename_annotated
from recap.papers.transformer.released import OPTION_OF, annotated_settings

# For `layer_norm: unbiased` (docs/reference/parameters.md).
rename_official = partial(rename_annotated, projections=("query", "intensity_query", "key", "value", "output"))
GATES = {"zodiac-sigmoid": "sigmoid", "zodiac-tanh": "tanh"}


def settings(tensors: Mapping[str, Tensor], options: Options) -> dict[str, Any]:
    """Return the settings of the ZoDIAC that tensors belong to; its gate is in no tensor."""
    name = options.get("caption_model", "zodiac-sigmoid")
    if name not in GATES:
        raise ConfigError(f"the option caption_model is {name!r}, which is no ZoDIAC; known are: {', '.join(GATES)}")
    sizes = annotated_settings(tensors, options)
    return {"kind": "zodiac", **sizes, "gate": GATES[name], "rap_scope": "as_released"}


RELEASE = Release(
    rename=rename_official,
    settings=settings,
    decoding={"beam": 5, "max_length": 20, "batch_size": 20},
    option_of=OPTION_OF,
    unused=[SINUSOID],
)
