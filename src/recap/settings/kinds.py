"""Names that plug-ins may add to: of metrics, of formats, and of kinds of settings.

Plug-ins are modules of a user's own. ``RECAP_PLUGINS=module[,module]`` names modules on the Python
path. Each is imported before the first name is looked up in a registry, and registers what it
brings; jobs of the workflow inherit the variable.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Union, get_args

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from recap.core.documents import HINT
from recap.core.errors import ConfigError, RecapError, UnknownName, first_line, nearest
from recap.core.log import log
from recap.settings.base import NoFile, Strict

VARIABLE = "RECAP_PLUGINS"


def load_plugins() -> None:
    """Import the modules that ``RECAP_PLUGINS`` names.

    One that has been imported is not imported again.
    """
    for name in filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(","))):
        try:
            import_module(name)
        except RecapError:
            raise
        except Exception as error:  # whatever a user's own module raises
            log.debug(f"{VARIABLE}: {name}", exc_info=True)
            raise ConfigError(
                f"{VARIABLE}: {name!r} cannot be imported: {type(error).__name__}: "
                f"{first_line(error)}; correct it, or add its folder to PYTHONPATH (--log-level "
                "debug shows the whole traceback)"
            ) from error


def resolve(target: str) -> Any:
    """Return the object that ``module:object`` names."""
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ModuleNotFoundError, AttributeError, ValueError) as error:
        # A library that the module needs is missing: its own message says which.
        if isinstance(error, ModuleNotFoundError) and not f"{module}.".startswith(f"{error.name}."):
            raise
        raise UnknownName(
            f"{target!r} names no module:object ({error}); correct it, or extend PYTHONPATH"
        ) from error


@cache
def import_all(package: str) -> None:
    """Import all modules of a package, once."""
    for module in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")


class Registry:
    """Named objects of one sort: ``module:object``,
    imported only when it is used, or classes of settings.

    As an annotation it is the union of its classes, chosen by their key ``kind``. The union is
    built when a schema first needs it, so that a plug-in may import the package.

    Args:
        what: what is registered, for messages (``metric``).
        targets: name -> ``module:object``.
        package: whose modules register classes when they are imported.
    """

    def __init__(
        self, what: str, targets: Mapping[str, str] | None = None, *, package: str | None = None
    ) -> None:
        self._what = what
        self._package = package
        self._entries: dict[str, str | type[Strict]] = dict(targets or {})

    def register(self, entry: Any, target: str | None = None) -> Any:
        """Add ``module:object`` under a name, or as a decorator a class under its ``kind``."""
        name, new = (
            (entry, target) if target else (*get_args(entry.model_fields["kind"].annotation), entry)
        )
        before = self._entries.setdefault(name, new)
        if before != new:
            raise ConfigError(
                f"{self._what} {name!r} is registered as {_place(before)}; rename that of "
                f"{_place(new)}"
            )
        return entry

    def names(self) -> list[str]:
        """Return all names, those of the package first."""
        if self._package:
            import_all(self._package)
        load_plugins()
        return list(self._entries)

    def target(self, name: str) -> str:
        """Return where an object is: ``module:object``.

        Of an unknown name the nearest is suggested.
        """
        if name not in self.names():
            raise UnknownName(
                f"unknown {self._what} {name!r}; {nearest(name, self._entries)} ({HINT})"
            )
        return _place(self._entries[name])

    def get(self, name: str) -> Any:
        """Return the object of a name."""
        target = self.target(name)
        entry = self._entries[name]
        return resolve(target) if isinstance(entry, str) else entry

    def classes(self) -> dict[str, Any]:
        """Return all classes of settings by their kind, sorted."""
        self.names()  # all of the package and of plug-ins
        entries = sorted(self._entries.items())
        return {name: entry for name, entry in entries if isinstance(entry, type)}

    def lineage(self, kind: type[Strict]) -> list[str]:
        """Return the name of a class, then of those it extends, nearest first."""
        names = {each: name for name, each in self.classes().items()}
        return [names[each] for each in kind.__mro__ if each in names]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        union: Any = Union[tuple(self.classes().values())]  # noqa: UP007 (of classes known now)
        return handler.generate_schema(Annotated[union, Field(discriminator="kind")])


def _place(entry: str | type[Strict]) -> str:
    return entry if isinstance(entry, str) else f"{entry.__module__}:{entry.__qualname__}"


@dataclass(frozen=True)
class OneOf(NoFile):
    """As ``Literal``, of names that are looked up when a value is checked."""

    names: Callable[[], Sequence[str]]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "string", "enum": list(self.names())}

    def _check(self, value: str) -> str:
        names = self.names()
        if value not in names:
            raise PydanticKnownError("literal_error", {"expected": ", ".join(map(repr, names))})
        return value
