"""From settings to a model; which kinds there are, the classes in `recap.settings.models` say.

A model's module is imported when one is built, so that the source of one kind is no part of what another depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recap.core.errors import ConfigError
from recap.models.base import Captioner
from recap.models.images import InputSpec
from recap.settings import Model, ModelConfig
from recap.settings.kinds import resolve
from recap.settings.params import validate


def build_model(config: ModelConfig | Mapping[str, Any], inputs: InputSpec) -> Captioner:
    """Build the model that settings describe, of the class that is registered for its kind."""
    settings: ModelConfig = config if isinstance(config, ModelConfig) else validate(Model, dict(config), "model")
    make = resolve(settings.implementation)
    if not (isinstance(make, type) and issubclass(make, Captioner)):
        wrong = f"model {settings.kind!r}: its implementation {settings.implementation} is not"
        raise ConfigError(f"{wrong} a recap.models.base.Captioner")
    make.reads(inputs)  # its sentence about a missing stream comes before any other
    try:
        model: Captioner = make(inputs, settings)
    except ValueError as error:
        raise ConfigError(f"model {settings.kind!r}: {error}") from error
    return model
