"""What a module says, taken apart into its top-level definitions: their content, and the names that they read.

What cannot change a result does not count: comments, docstrings, layout, type annotations of functions, the words of
messages, the class and words of errors that end a job, checks of settings, and where in the package something is. The
content is the same on Python 3.11 to 3.13.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from recap.core import errors

_NO_FIELDS = {"ctx", "kind", "type_comment", "type_params", "annotation", "returns"}  # of syntax trees: compute nothing
_CHECKS = ("field_validator", "model_validator", "field_serializer", "model_serializer")  # ran when a spec was made
# Python's own, such as IndexError, may be caught and steer a loop; these end the job, whichever it is.
_ENDINGS = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)}
_TARGET = re.compile(r"recap(\.\w+)+(:\w+)?")  # `module:object` in a registry; who uses it names it as a start


@dataclass(frozen=True)
class Definition:
    """A top-level statement: the hash of what it says, and the names that it reads (``masks.causal``).

    ``types`` are the names in its annotations alone, ``without_fields`` is the hash of a class without its annotated
    fields, ``bases`` are the names of its parents.
    """

    hash: str
    names: tuple[str, ...]
    types: tuple[str, ...] = ()
    without_fields: str = ""
    bases: tuple[str, ...] = ()


@dataclass
class Module:
    """The definitions of a module by name, those without one under ``""``, and what its imports mean."""

    definitions: dict[str, list[Definition]] = field(default_factory=dict)
    imports: dict[str, list[str]] = field(default_factory=dict)


def read_module(file: Path, name: str) -> Module:
    """Return what the module of a file defines and imports."""
    tree = ast.parse(file.read_bytes(), filename=str(file))
    module = Module(imports=_imports(tree, name, is_package=file.name == "__init__.py"))
    for node in _without_docstring(tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_message(node):
            continue
        if isinstance(node, ast.If) and (_chain(node.test) or "").rpartition(".")[2] == "TYPE_CHECKING":
            continue
        definition = _definition(node)
        for bound in sorted(_bound(node)) or [""]:
            module.definitions.setdefault(bound, []).append(definition)
    return module


def _imports(tree: ast.Module, name: str, *, is_package: bool) -> dict[str, list[str]]:
    """Return what each imported name means, also those imported inside functions."""
    found: dict[str, list[str]] = {}
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                local = alias.asname or alias.name.partition(".")[0]
                found.setdefault(local, []).append(alias.name if alias.asname else local)
        elif isinstance(node, ast.ImportFrom):
            parts = name.split(".")[: (-node.level if not is_package else 1 - node.level) or None] if node.level else []
            source = ".".join([*parts, *filter(None, [node.module])])
            for alias in node.names:
                found.setdefault(alias.asname or alias.name, []).append(f"{source}.{alias.name}")
    return {local: sorted(set(targets)) for local, targets in found.items()}


def _bound(node: ast.AST) -> set[str]:
    """Return the names that a top-level statement defines, an ``if`` with all that is below it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return names | {name for child in _children(node) for name in _bound(child)}


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements below a module or a statement."""
    for child in _children(node):
        yield child
        yield from _statements(child)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what the blocks of a module or a statement consist of."""
    for key in ("body", "orelse", "handlers", "finalbody", "cases"):
        yield from getattr(node, key, ())


def _definition(node: ast.stmt) -> Definition:
    names, types = _read(node)
    if not isinstance(node, ast.ClassDef):
        return Definition(content_hash(_plain(node)), names, types)
    bases = tuple(name for base in node.bases for name in _read(base)[0])
    whole = fieldless = content_hash(_plain(node))
    body = [each for each in node.body if not isinstance(each, ast.AnnAssign)]
    if len(body) < len(node.body):
        without = ast.ClassDef(node.name, node.bases, node.keywords, body, node.decorator_list)
        fieldless = content_hash(_plain(without))
    return Definition(whole, names, types, fieldless, bases)


def _plain(node: object) -> object:
    """Return a syntax tree as nested lists: without what computes nothing, and as every Python version has it."""
    if isinstance(node, list):
        return [_plain(each) for each in _without_docstring(node) if not _is_message(each) and not _is_check(each)]
    if isinstance(node, ast.AST):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            return ["Raise", "" if _ends(node.exc) else _plain(node.exc.func)]
        if isinstance(node, ast.JoinedStr):  # Python 3.12.1 has empty parts in it
            node = ast.JoinedStr([part for part in node.values if getattr(part, "value", None) != ""])
        named = ((key, getattr(node, key, None)) for key in node._fields if key not in _NO_FIELDS)
        return [type(node).__name__, [[key, _plain(value)] for key, value in named if value not in (None, [])]]
    if isinstance(node, str) and _TARGET.fullmatch(node):  # where something is, not what it is
        return "target"
    return [type(node).__name__, repr(node)]


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    return body[1:] if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else body


def _is_message(node: object) -> bool:
    """Return whether a statement is a call of `log`."""
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and _chain(call.func.value) == "log"


def _ends(call: ast.Call) -> bool:
    """Return whether a call makes an error that is shown to the user."""
    return (_chain(call.func) or "").rpartition(".")[2] in _ENDINGS


def _is_check(node: object) -> bool:
    """Return whether a function checks settings."""
    return isinstance(node, ast.FunctionDef) and any(
        name in _CHECKS for decorator in node.decorator_list for name in _read(decorator)[0]
    )


def _read(node: ast.AST) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names that a tree reads, attributes of a name as one (``masks.causal``), and those of types alone."""
    names: set[str] = set()
    types: set[str] = set()
    _collect(node, names, types)
    return tuple(sorted(names)), tuple(sorted(types - names))


def _collect(node: object, names: set[str], types: set[str]) -> None:
    """Add the names that a tree reads, and those in its annotations."""
    if isinstance(node, list):
        for each in node:
            _collect(each, names, types)
    elif not isinstance(node, ast.AST):
        return
    elif (name := _chain(node)) is not None:
        names.add(name)
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        if not _ends(node.exc):
            _collect(node.exc.func, names, types)
    elif not _is_message(node) and not _is_check(node):
        for key in node._fields:
            _collect(getattr(node, key, None), types if key in ("annotation", "returns") else names, types)


def _chain(node: object) -> str | None:
    """Return ``a.b.c`` of a name and its attributes; None for all else."""
    if isinstance(node, ast.Name):
        return node.id
    base = _chain(node.value) if isinstance(node, ast.Attribute) else None
    return f"{base}.{node.attr}" if base is not None and isinstance(node, ast.Attribute) else None


def content_hash(value: object) -> str:
    """Return the sha256 of a plain value."""
    return hashlib.sha256(repr(value).encode()).hexdigest()
