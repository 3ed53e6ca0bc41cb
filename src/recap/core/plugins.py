"""Plug-ins: modules of a user's own that add data sets, extractors, metrics and models.

``RECAP_PLUGINS=module[,module]`` names modules on the Python path. Each is imported before the first name is looked up
in a registry, and registers what it brings; jobs of the workflow inherit the variable.
"""

from __future__ import annotations

import os
import traceback
from importlib import import_module
from typing import Any

from recap.core.errors import ConfigError, RecapError, UnknownName, first_line
from recap.core.log import log

VARIABLE = "RECAP_PLUGINS"
HINT = f"if it is one of your own, name its module in {VARIABLE}"


def load_plugins() -> None:
    """Import the modules that ``RECAP_PLUGINS`` names; one that has been imported is not imported again."""
    for name in filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(","))):
        if not all(map(str.isidentifier, name.split("."))):
            raise ConfigError(f"{VARIABLE}: {name!r} is no name of a module; write it as in an import: package.module")
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            raise UnknownName(
                f"{VARIABLE}: {name!r} cannot be imported ({error}); correct the name, or add its folder to PYTHONPATH"
            ) from error
        except RecapError:
            raise
        except Exception as error:  # whatever a user's own module raises
            log.debug(f"{VARIABLE}: {name}", exc_info=True)
            last = traceback.extract_tb(error.__traceback__)[-1]
            # A syntax error says file and line itself.
            place = "" if isinstance(error, SyntaxError) else f"{last.filename}, line {last.lineno}: "
            raise ConfigError(
                f"{VARIABLE}: {name!r} cannot be imported: {place}{type(error).__name__}: {first_line(error)}; "
                "correct it (--log-level debug shows the whole traceback)"
            ) from error


def resolve(target: str) -> Any:
    """Return the object that ``module:object`` names."""
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise ConfigError(f"{target!r} does not have the form module:object; correct it")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        # A library that the module needs is missing: its own message says which.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise UnknownName(f"{target}: there is no module {error.name!r}; correct it, or extend PYTHONPATH") from error
    except AttributeError as error:
        raise UnknownName(f"{target}: {error}; correct it") from error
