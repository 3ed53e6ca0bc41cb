"""Plug-ins: modules of a user's own that add data sets, extractors, metrics and models.

``RECAP_PLUGINS=module[,module]`` names modules on the Python path. Each is imported before the first name is looked up
in a registry, and registers what it brings; jobs of the workflow inherit the variable.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from recap.core.errors import ConfigError, nearest
from recap.core.manifests import sha256_file, value_hash
from recap.core.source import code_digest

VARIABLE = "RECAP_PLUGINS"
_PACKAGE = Path(__file__).resolve().parent.parent
_NAME = _PACKAGE.name


def load_plugins() -> None:
    """Import the modules that ``RECAP_PLUGINS`` names; one that has been imported is not imported again.

    Raises:
        ConfigError: there is no such module.
    """
    for name in filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(","))):
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"{VARIABLE}: {name!r} cannot be imported ({error}); correct the name, or add its folder to PYTHONPATH"
            ) from error


class Registry:
    """Named objects of one sort, each imported only when it is used.

    Args:
        what: what is registered, for error messages (``metric``).
        targets: name -> ``module:object``.
    """

    def __init__(self, what: str, targets: Mapping[str, str]) -> None:
        self._what = what
        self._targets = dict(targets)

    def register(self, name: str, target: str) -> None:
        """Add an object; the same name and target may be registered again.

        Raises:
            ConfigError: another object has this name.
        """
        known = self._targets.setdefault(name, target)
        if known != target:
            raise ConfigError(f"{self._what} {name!r} is registered as {known}; rename that of {target}")

    def names(self) -> list[str]:
        """Return all names, those of the package first."""
        load_plugins()
        return list(self._targets)

    def target(self, name: str) -> str:
        """Return where an object is: ``module:object``.

        Raises:
            ConfigError: the name is unknown (the nearest is suggested).
        """
        load_plugins()
        if name not in self._targets:
            raise ConfigError(f"unknown {self._what} {name!r}; {nearest(name, self._targets)}")
        return self._targets[name]

    def get(self, name: str) -> Any:
        """Return an object.

        Raises:
            ConfigError: as :meth:`target` and :func:`resolve`.
        """
        return resolve(self.target(name))


def resolve(target: str) -> Any:
    """Return the object that ``module:object`` names.

    Raises:
        ConfigError: the text has another form, or there is no such module or object.
    """
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise ConfigError(f"{target!r} does not have the form module:object; correct it")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        # A library that the module needs is missing: its own message says which.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(f"{target}: there is no module {error.name!r}; correct it, or extend PYTHONPATH") from error
    except AttributeError as error:
        raise ConfigError(f"{target}: {error}; correct it") from error


def target_digest(*targets: str, modules: Iterable[str] = ()) -> str:
    """Return a digest of the source that a job runs which finds objects by name.

    Args:
        targets: the objects, as ``module:object``; of a plug-in, all files of its package count, and what they import
            from this one.
        modules: where else the job starts, as :func:`recap.core.source.code_digest` takes them.
    """
    starts = {module_of(target) for target in targets}
    files = sorted({file for name in starts if not _is_ours(name) for file in _files(name)})
    ours = {*modules, *filter(_is_ours, starts), *(name for file in files for name in _imported(file))}
    digest = code_digest(*sorted(ours))
    return value_hash([digest, *map(sha256_file, files)]) if files else digest


def _is_ours(module: str) -> bool:
    return (_PACKAGE / f"{module}.py").is_file()


def _files(module: str) -> list[Path]:
    """Return the source files of the package that a plug-in's module is in, or of the module if it is in none."""
    found = find_spec(module.partition(".")[0])
    if found is None or found.origin is None:
        raise ConfigError(f"there is no module {module!r}; correct the name, or add its folder to PYTHONPATH")
    path = Path(found.origin)
    return sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]


def _imported(file: Path) -> list[str]:
    """Return the modules of this package, but for `core`, that a plug-in's file imports, also inside functions."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8"), filename=str(file)))
    names = [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    ours = [module_of(name) for name in names if name.startswith(f"{_NAME}.")]
    return [name for name in ours if _is_ours(name) and not name.startswith("core/")]


def module_of(target: str) -> str:
    """Return the module of ``module:object``, as source digests name it: ``data/datasets/coco`` within the package.

    A plug-in's module keeps its dots.
    """
    module = target.partition(":")[0]
    package, dot, rest = module.partition(".")
    return rest.replace(".", "/") if dot and package == _NAME else module
