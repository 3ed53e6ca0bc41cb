"""Settings classes, chosen by their key ``kind``: one class per file of a folder, and those of plug-ins."""

from __future__ import annotations

import pkgutil
from functools import cache, reduce
from importlib import import_module
from operator import or_
from typing import Annotated, Any, TypeVar, get_args

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

from recap.core.errors import ConfigError
from recap.core.plugins import load_plugins
from recap.settings.base import Strict

Kind = TypeVar("Kind", bound=Strict)


class Kinds:
    """The config classes of one section of ``params/``; as an annotation, the union of all of them.

    The union is built when a schema first needs it, so that a plug-in may import the package.

    Args:
        package: whose modules register the classes when they are imported, ``recap.settings.datasets``.
    """

    def __init__(self, package: str) -> None:
        self._package = package
        self._classes: dict[str, type[Strict]] = {}

    def register(self, kind: type[Kind]) -> type[Kind]:
        """Add a class with a field ``kind: Literal[NAME]``; a decorator.

        Raises:
            ConfigError: another class has this name.
        """
        (name,) = get_args(kind.model_fields["kind"].annotation)
        known = self._classes.setdefault(name, kind)
        if known is not kind:
            raise ConfigError(f"kind {name!r} of {kind.__module__} is taken by {known.__module__}; rename it")
        return kind

    def classes(self) -> dict[str, type[Strict]]:
        """Return all classes by their kind, sorted."""
        _import_modules(self._package)
        load_plugins()
        return dict(sorted(self._classes.items()))

    def lineage(self, kind: type[Strict]) -> list[str]:
        """Return the name of a class, then those of the classes that it extends, the nearest first."""
        names = {found: name for name, found in self.classes().items()}
        return [names[each] for each in kind.__mro__ if each in names]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        union = reduce(or_, self.classes().values())
        return handler.generate_schema(Annotated[union, Field(discriminator="kind")])


@cache
def _import_modules(package: str) -> None:
    """Import all modules of a package, once a process."""
    for module in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")
