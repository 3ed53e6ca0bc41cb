"""Settings of models: ``params/models/``; one file a kind, and whatever the modules in RECAP_PLUGINS add.

``RECAP_PLUGINS=my_models,their_models`` names modules, found as Python finds any (``PYTHONPATH``, or installed), that
are imported with this package. Each `ModelConfig` with a key ``kind: Literal[NAME]``, here or in a plugin, makes NAME a
kind that ``params/models/*.yaml`` may choose; its `implementation` is imported only when a model is built.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Annotated, Union, get_args

from pydantic import Field

from recap.core.config.models.base import ModelConfig, Probability
from recap.core.errors import ConfigError, nearest

__all__ = ["MODEL_CONFIGS", "PLUGINS", "Model", "ModelConfig", "Probability", "implementation"]

PLUGINS = "RECAP_PLUGINS"


def _found() -> dict[str, type[ModelConfig]]:
    """Import all files of this folder and all plugins, and return the class of each kind, by name of the kind."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    for name in filter(None, os.environ.get(PLUGINS, "").replace(" ", "").split(",")):
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise ConfigError(
                f"{PLUGINS}: there is no module {name!r}; put its folder on PYTHONPATH or install it"
            ) from error
    found: dict[str, type[ModelConfig]] = {}
    for config in _subclasses(ModelConfig):  # type: ignore[type-abstract]
        kind = _kind(config)
        if kind in found:
            raise ConfigError(
                f"the kind of model {kind!r} is that of {found[kind].__module__} and of {config.__module__}; rename one"
            )
        if kind is not None:
            found[kind] = config
    return dict(sorted(found.items()))


def _subclasses(base: type[ModelConfig]) -> Iterator[type[ModelConfig]]:
    for config in base.__subclasses__():
        yield config
        yield from _subclasses(config)


def _kind(config: type[ModelConfig]) -> str | None:
    """Return the kind that a class of settings describes, or None if it is a base of such classes."""
    names = get_args(config.model_fields["kind"].annotation)
    return names[0] if names else None


MODEL_CONFIGS = _found()

if TYPE_CHECKING:
    Model = ModelConfig
else:
    Model = Annotated[Union[tuple(MODEL_CONFIGS.values())], Field(discriminator="kind")]  # noqa: UP007 - made of a list


def implementation(kind: str) -> tuple[str, str]:
    """Return module and class of a kind of model, neither of them imported.

    Raises:
        ConfigError: the kind is not registered.
    """
    if kind not in MODEL_CONFIGS:
        raise ConfigError(f"model: unknown kind {kind!r}; {nearest(kind, MODEL_CONFIGS)}")
    module, _, name = MODEL_CONFIGS[kind].implementation.partition(":")
    return module, name


def source_module(kind: str) -> str:
    """Return a kind's module as `recap.core.source.code_digest` takes it: ``models/xlan``; a plugin's, by its own name.

    Raises:
        ConfigError: the kind is not registered.
    """
    module, _ = implementation(kind)
    return module.removeprefix("recap.").replace(".", "/") if module.startswith("recap.") else module
