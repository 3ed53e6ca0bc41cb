"""Settings of models: folders ``models/``; each kind is a `ModelConfig` of `recap.papers`, registered with `MODELS`.

A module named in RECAP_PLUGINS (`recap.core.plugins`) adds kinds in the same way. The model itself is imported only
when one is built.
"""

from __future__ import annotations

from typing import Annotated, cast

from recap.core.errors import ConfigError, nearest
from recap.core.plugins import HINT
from recap.settings.models.base import EXPLAINED, MODELS, RELEASED, ModelConfig, Probability

Model = Annotated[ModelConfig, MODELS]


def model_configs() -> dict[str, type[ModelConfig]]:
    """Return the class of settings of every kind, by its name."""
    return cast(dict[str, type[ModelConfig]], MODELS.classes())


def implementation(kind: str) -> str:
    """Return where a kind of model is, ``module:Class``; nothing is imported.

    Raises:
        ConfigError: the kind is not registered.
    """
    known = model_configs()
    if kind not in known:
        raise ConfigError(f"model: unknown kind {kind!r}; {nearest(kind, known)} ({HINT})")
    return known[kind].implementation


def model_source(kind: str) -> tuple[str, str]:
    """Return where a kind's model and its settings are, ``module:Class`` each: what its trainings run.

    Raises:
        ConfigError: the kind is not registered.
    """
    target = implementation(kind)
    settings = model_configs()[kind]
    return target, f"{settings.__module__}:{settings.__qualname__}"
