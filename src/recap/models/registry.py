"""From a validated model config to a module; registered means tested (tests/unit/test_models.py runs every name)."""

from __future__ import annotations

from typing import Any

from recap.core.errors import ConfigError, nearest
from recap.models.base import Captioner
from recap.models.transformer import Transformer
from recap.models.up_down import UpDown
from recap.models.x_transformer import XTransformer
from recap.models.xlan import XLan
from recap.models.zodiac import Zodiac

MODELS: dict[str, type[Captioner]] = {
    "transformer": Transformer,
    "up_down": UpDown,
    "x_transformer": XTransformer,
    "xlan": XLan,
    "zodiac": Zodiac,
}


def build_model(config: dict[str, Any], *, feature_size: int, vocabulary_size: int) -> Captioner:
    """Build the model `config["kind"]` with the other keys as arguments.

    Raises:
        ConfigError: the kind is not registered, or its sizes do not fit together.
    """
    arguments = dict(config)
    kind = arguments.pop("kind")
    if kind not in MODELS:
        raise ConfigError(f"model: unknown kind {kind!r}; {nearest(kind, MODELS)}")
    try:
        return MODELS[kind](feature_size=feature_size, vocabulary_size=vocabulary_size, **arguments)
    except ValueError as error:
        raise ConfigError(f"model {kind!r}: {error}") from error
