"""From settings to a model; which kinds there are, the classes in `recap.settings.models` say.

A model's module is imported when one is built, so that the source of one kind is no part of what another depends on.
"""

from __future__ import annotations

from recap.core.errors import ConfigError
from recap.models.base import Captioner
from recap.models.images import InputSpec
from recap.settings import ModelConfig
from recap.settings.kinds import resolve


def build_model(settings: ModelConfig, inputs: InputSpec) -> Captioner:
    """Build the model that settings describe, of the class that is registered for its kind."""
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
