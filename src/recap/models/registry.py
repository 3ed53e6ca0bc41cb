"""From settings to a model; which kinds there are, the classes in `recap.settings.models` say.

A model's module is imported when one is built, so that the source of one kind is no part of what another depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from recap.core.errors import ConfigError
from recap.models.base import Captioner
from recap.models.images import InputSpec
from recap.settings import Model, ModelConfig
from recap.settings.kinds import resolve
from recap.settings.models import implementation, model_configs
from recap.settings.params import validate


def model_class(kind: str) -> type[Captioner]:
    """Import and return the class of a kind of model."""
    target = implementation(kind)
    found = resolve(target)
    if not (isinstance(found, type) and issubclass(found, Captioner)):
        raise ConfigError(f"model {kind!r}: its implementation {target} is not a recap.models.base.Captioner")
    return found


def model_config(config: ModelConfig | Mapping[str, Any]) -> ModelConfig:
    """Return settings as their class."""
    if isinstance(config, ModelConfig):
        return config
    validated: ModelConfig = validate(Model, dict(config), "model")
    return validated


def build_model(config: ModelConfig | Mapping[str, Any], inputs: InputSpec) -> Captioner:
    """Build the model that settings describe, of the class that is registered for its kind."""
    config = model_config(config)
    make = model_class(config.kind)
    make.reads(inputs)  # its sentence about a missing stream comes before any other
    try:
        return make(inputs, config)
    except ValueError as error:
        raise ConfigError(f"model {config.kind!r}: {error}") from error


def kinds_with_attention_maps() -> list[str]:
    """Return the kinds whose examples have attention over the image that can be drawn."""
    found = []
    for kind, config in model_configs().items():
        with torch.device("meta"):
            if build_model(config.example(), InputSpec(config.example_streams, vocabulary_size=9)).attention_modules():
                found.append(kind)
    return found
