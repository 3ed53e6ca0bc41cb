"""Which source files a job runs, found by following imports: what its result depends on besides its inputs."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

from recap.core.manifests import source_digest

_PACKAGE = Path(__file__).resolve().parent.parent
# The rest of `core` moves and checks values, which reach a job in its spec; random numbers are made here.
_CORE = ("core/seeding",)


def code_digest(*modules: str, without: Collection[str] = ()) -> str:
    """Return a digest of the source of ``modules`` (``training/job``) and of all modules of the package they import.

    Snakemake sees only its own rules; rules pass this as a parameter so that a changed layer retrains what uses it,
    and a changed table retrains nothing.

    Args:
        modules: where a job starts.
        without: modules not to follow: what is imported, but does not bear on the job's result.

    Raises:
        FileNotFoundError: a name is no module of the package.
    """
    return source_digest(*sorted(imported(*modules, without=without)))


def imported(*modules: str, without: Collection[str] = ()) -> set[str]:
    """Return ``modules`` and all they import from the package, also inside functions, as ``room/file``."""
    for name in (*modules, *without):
        if not (_PACKAGE / f"{name}.py").is_file():
            raise FileNotFoundError(f"there is no module {name!r} in the package")
    found: set[str] = set()
    todo = list(modules)
    while todo:
        name = todo.pop()
        if name not in found and name not in without:
            found.add(name)
            todo += _imports(name)
    return found


@cache
def _imports(name: str) -> list[str]:
    """Return the modules of the package that one module imports."""
    path = _PACKAGE / f"{name}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    names = {target for node in ast.walk(tree) for target in _targets(node)}
    files = {name.removeprefix("recap.").replace(".", "/") for name in names if name.startswith("recap.")}
    kept = [file for file in files if (_PACKAGE / f"{file}.py").is_file()]
    return sorted(file for file in kept if not file.startswith("core/") or file in _CORE)


def _targets(node: ast.AST) -> Iterator[str]:
    """Yield the names that an import statement may mean; ``from a import b`` may mean the module ``a.b``."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
