"""Hashes of files, of values and of our source: what a result was made from.

The digest of source is one of its tokens: comments, docstrings, blank lines and the layout of a line do not count, so
that only a change of what is computed makes results again. It is the same on Python 3.11 to 3.13.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from recap.core.module_source import ModuleSource, module_source

_PACKAGE = Path(__file__).resolve().parent.parent
# The rest of `core` moves and checks values, which reach a job in its spec; random numbers are made here.
_CORE = ("core/seeding",)


def sha256_file(path: str | Path) -> str:
    """Return the sha256 of a file's bytes, read in pieces."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def value_hash(value: Any) -> str:
    """Return 16 hex digits of the sha256 of ``value`` as canonical JSON; equal on every Python version."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def code_digest(*modules: str, without: Collection[str] = ()) -> str:
    """Return a digest of the source of ``modules`` (``training/job``) and of all modules of the package they import.

    Snakemake sees only its own rules; rules pass this as a parameter so that a changed layer retrains what uses it,
    and a changed table, comment or docstring retrains nothing.

    Args:
        modules: where a job starts; a module outside of the package has its dotted name.
        without: modules not to follow: what is imported, but does not bear on the job's result.

    Raises:
        FileNotFoundError: there is no such module.
    """
    return _code_digest(modules, frozenset(without))


@cache
def _code_digest(modules: tuple[str, ...], without: frozenset[str]) -> str:
    return value_hash({name: _source(name).digest for name in imported(*modules, without=without)})


def imported(*modules: str, without: Collection[str] = ()) -> set[str]:
    """Return ``modules`` and all they import from the package, also inside functions, as ``package/module``."""
    for name in (*modules, *without):
        if _file(name) is None:
            raise FileNotFoundError(f"there is no module {name!r} in the package")
    found: set[str] = set()
    todo = list(modules)
    while todo:
        name = todo.pop()
        if name not in found and name not in without:
            found.add(name)
            todo += _imports(name)
    return found


def _file(name: str) -> Path | None:
    """Return the file of a module, or of a package's own source; None if there is none."""
    for path in (_PACKAGE / f"{name}.py", _PACKAGE / name / "__init__.py"):
        if path.is_file():
            return path
    spec = None if "/" in name else find_spec(name)  # a plug-in
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


@cache
def _imports(name: str) -> list[str]:
    """Return the modules of the package that one module imports."""
    names = {target for target in _source(name).names if target.startswith("recap.")}
    files = {name.removeprefix("recap.").replace(".", "/") for name in names}
    kept = [file for file in files if (_PACKAGE / f"{file}.py").is_file()]
    return sorted(file for file in kept if not file.startswith("core/") or file in _CORE)


def _source(name: str) -> ModuleSource:
    file = _file(name)
    assert file is not None
    return module_source(file)
