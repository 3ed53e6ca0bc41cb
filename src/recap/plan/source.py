"""A digest of the source that a job runs: of content, not of the files that hold it.

From where a job starts, each top-level definition that another one names is followed, in whatever
module it is. What cannot change a result does not count: names of files, comments, docstrings,
layout, annotations of functions, words of messages; nor fields in modules called `settings`,
because a job gets their values in its spec. The content is the same on Python 3.11 to 3.13.
`tests/golden/identities.json` shows which runs a change retrains before it retrains any.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any, NamedTuple

from recap.core.hashing import value_hash
from recap.plan.job import EntryPoints
from recap.settings.base import Strict
from recap.settings.metrics import METRICS
from recap.settings.models import MODELS
from recap.settings.params import load_named, names

TRAINING, EVALUATION = "recap.training.run:train", "recap.evaluation.decode:evaluate"
CAPTIONING = "recap.evaluation.decode:caption_part"
# Imported by jobs, but not part of what they compute: pictures reach them as features.
PICTURES = ("recap.data.files.images",)
# Files, messages and processes carry results and compute none;
# a test compares this list with what trainings run.
MACHINERY = (
    "recap.core.checksums",
    "recap.core.documents",
    "recap.core.errors",
    "recap.core.files",
    "recap.core.log",
    "recap.core.process",
    "recap.features.write",
    "recap.plan.source",
    "recap.settings.kinds",
    "recap.settings.params",
)
_PACKAGE = Path(__file__).resolve().parents[1]
_OF_RUNS = ("datasets", "subsets", "features", "language_models", "models", "recipes")
# fields of syntax trees
_COMPUTES_NOTHING = {"ctx", "kind", "type_comment", "type_params", "annotation", "returns"}
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# `module:object` in a registry; who uses it names it as a start
_TARGET = re.compile(r"recap(\.\w+)+(:\w+)?")

Place = tuple[str, str]  # module, name of a definition
Key = tuple[tuple[str, ...], tuple[str, ...]]  # where a job starts, and what is not followed
# what this process computed, or took from one that reads the same source
DIGESTS: dict[Key, str] = {}


def identities(params: Path) -> dict[str, Any]:
    """Return hashes of parameter files, digests of jobs and metrics,
    and the defaults that no hash holds."""
    parameters = {}
    for section in _OF_RUNS:
        for name in names(params, section):
            values = load_named(params, section, name).model_dump(mode="json")
            parameters[f"{section}/{name}"] = value_hash(values)
    return {
        "parameters": parameters,
        "source": {
            kind: {"training": job_code(TRAINING, kind), "evaluation": job_code(EVALUATION, kind)}
            for kind in sorted(MODELS.classes())
        },
        "metrics": {name: code_digest(METRICS.target(name)) for name in sorted(METRICS.names())},
        "neutral": keys_omitted_at_default(),
    }


def keys_omitted_at_default() -> dict[str, Any]:
    """Return the default of every key of `omitted_at_default`: ``Recipe.processes`` -> 1."""
    import_module("recap.settings.specs")  # its classes have such keys, too
    kinds: list[type[Strict]] = [Strict]
    for kind in kinds:
        kinds += [child for child in kind.__subclasses__() if child not in kinds]
    keys = {}
    for kind in sorted(kinds[1:], key=lambda kind: kind.__name__):
        for name, info in kind.model_fields.items():
            if info.exclude_if is not None and name in kind.__annotations__:
                keys[f"{kind.__name__}.{name}"] = info.get_default(call_default_factory=True)
    return keys


def entry_points(start: str, *kinds: str, metrics: Sequence[str] = ()) -> EntryPoints:
    """Return where a job begins: its first definition, its kinds of models and metrics."""
    targets = list(map(METRICS.target, metrics))
    for kind in kinds:
        targets += [MODELS.get(kind).implementation, MODELS.target(kind)]
    return EntryPoints((start, *targets), PICTURES)


def job_code(start: str, *kinds: str, metrics: Sequence[str] = ()) -> str:
    """Return the digest of a job that begins there; a training compares it when it resumes."""
    code = entry_points(start, *kinds, metrics=metrics)
    return code_digest(*code.starts, without=code.without)


def code_digest(*starts: str, without: Collection[str] = ()) -> str:
    """Return 16 hex digits of what a job may run (`reached`): a changed layer retrains."""
    key = starts, tuple(without)
    if key not in DIGESTS:
        hashes = {place: content_hash(_definition(place).hashes) for place in reached(*key)}
        # What a name means is part of what a definition computes:
        # two of one name in two modules may change places.
        for _ in range(3):  # names of names of names: no two definitions were equal after that
            before = hashes
            hashes = {}
            for place, own in before.items():
                content = [own]
                for name, definitions, outside in _resolved_names(place):
                    digests = ",".join(before.get(each, "") for each in definitions)
                    content.append(f"{name}={digests}{outside}")
                hashes[place] = content_hash(content)
        DIGESTS[key] = content_hash(sorted(set(hashes.values())))[:16]
    return DIGESTS[key]


def reached(starts: Collection[str], without: Collection[str] = ()) -> set[Place]:
    """Return what a job may run that starts at definitions
    (``recap.training.run:train``) or at all of some modules."""
    # Beside `MACHINERY`, what is imported and does not bear on the result is not followed.
    left_out = (*MACHINERY, *without)
    todo: list[Place] = []
    for module, _, name in (start.partition(":") for start in (*starts, *without)):
        places = _resolve_name(module, name) if name else _all_of(module)
        if name and not places:
            raise LookupError(f"there is no {name!r} in module {module!r}")
        todo += places
    reached_places: set[Place] = set()
    while todo:
        module, name = place = todo.pop()
        if place in reached_places or any(f"{module}.".startswith(f"{each}.") for each in left_out):
            continue
        reached_places.add(place)
        own = _definition(place)
        for read in (*own.names, *own.types):
            todo += _resolve_name(module, read)
        if name and "" in _parsed(module).definitions:
            todo.append((module, ""))
    return reached_places


def _all_of(module: str) -> list[Place]:
    return [(module, name) for name in _parsed(module).definitions]


def _definition(place: Place) -> Definition:
    return _parsed(place[0]).definitions.get(place[1], Definition())


@cache
def _resolved_names(place: Place) -> list[tuple[str, tuple[Place, ...], str]]:
    """Return what names in a definition mean: definitions, or imports as ``math.floor``."""
    module, _ = place
    meanings = []
    for name in sorted(_definition(place).names):
        first, dot, rest = name.partition(".")
        dotted = _parsed(module).imports.get(first, [first])[0] + dot + rest
        definitions = _resolve_name(module, name)
        outside = "" if definitions or dotted.startswith(f"{_PACKAGE.name}.") else dotted
        meanings.append((name.rpartition(".")[2], definitions, outside))
    return meanings


@cache
def _resolve_name(module: str, name: str) -> tuple[Place, ...]:
    """Return the definitions that a name in a module may mean.

    None for built-ins, arguments and other packages.
    """
    first, _, rest = name.partition(".")
    if first in _parsed(module).definitions:
        return ((module, first),)
    places: list[Place] = []
    for target in _parsed(module).imports.get(first, []):
        places += _definitions_at(f"{target}.{rest}" if rest else target, module)
    return tuple(places)


def _definitions_at(dotted: str, origin: str) -> Sequence[Place]:
    """Return the definitions at ``recap.nn.rows.causal_mask``; at a module, all of it."""
    parts = dotted.split(".")
    if parts[0] not in (_PACKAGE.name, origin.partition(".")[0]):
        return []
    for length in range(len(parts), 0, -1):
        module, rest = ".".join(parts[:length]), ".".join(parts[length:])
        if module_file(module) is not None:
            return _resolve_name(module, rest) if rest else _all_of(module)
    return []


def module_file(name: str) -> Path | None:
    """Return the file of a module, ``recap.training.run`` or one outside of the package.

    None if there is none.
    """
    if name == _PACKAGE.name or name.startswith(f"{_PACKAGE.name}."):
        path = _PACKAGE.parent.joinpath(*name.split("."))
        return next(
            (file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()),
            None,
        )
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


@dataclass
class Definition:
    """The top-level statements that bind a name: their hashes, and what they read."""

    hashes: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)  #: names in annotations


class Module(NamedTuple):
    """A module's definitions by name (without one: ``""``), and what its imports mean."""

    definitions: dict[str, Definition]
    imports: dict[str, list[str]]


@cache
def _parsed(name: str) -> Module:
    """Return what a module defines and imports."""
    file = module_file(name)
    if file is None:
        raise LookupError(f"there is no module {name!r}")
    tree = ast.parse(file.read_bytes(), filename=str(file))
    module = Module(
        {}, _imports(tree, name if file.name == "__init__.py" else name.rpartition(".")[0])
    )
    for node in _without_docstring(tree.body):
        if not _computes_nothing(node):
            _define(module, node, in_settings="settings" in name.split("."))
    return module


def _computes_nothing(node: ast.stmt) -> bool:
    """Return whether a statement imports, is for types alone, or logs."""
    if isinstance(node, ast.If):
        return (_dotted_name(node.test) or "").rpartition(".")[2] == "TYPE_CHECKING"
    return isinstance(node, ast.Import | ast.ImportFrom) or _is_message(node)


def _define(module: Module, node: ast.stmt, *, in_settings: bool) -> None:
    """Add a top-level statement to the definitions of the names that it binds."""
    names: set[str] = set()
    types: set[str] = set()
    content = _hashed_content(node, names, types)
    if in_settings and isinstance(node, ast.ClassDef):
        node.body = [each for each in node.body if not isinstance(each, ast.AnnAssign)]
        content = _hashed_content(node, set(), set())
    for defined in _bound_names(node) or {""}:
        own = module.definitions.setdefault(defined, Definition())
        own.hashes.append(content_hash(content))
        own.names |= names
        own.types |= types


def _bound_names(node: ast.stmt) -> set[str]:
    """Return the names that a statement binds: an ``if`` those of all that is below it."""
    bound = set()
    for each in [node] if isinstance(node, _NAMED) else ast.walk(node):
        if isinstance(each, _NAMED):
            bound.add(each.name)
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            bound.add(each.id)
    return bound


def _imports(tree: ast.Module, package: str) -> dict[str, list[str]]:
    """Return what each imported name of a module means, also within functions."""
    imports: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                local = alias.asname or alias.name.partition(".")[0]
                imports.setdefault(local, set()).add(alias.name if alias.asname else local)
        elif isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                imports.setdefault(alias.asname or alias.name, set()).add(f"{source}.{alias.name}")
    return {local: sorted(targets) for local, targets in imports.items()}


def _hashed_content(node: object, names: set[str], types: set[str]) -> object:
    """Return a tree as nested lists of what it computes; add its reads to `names` and `types`."""
    if isinstance(node, list):
        body = _without_docstring(node)
        return [_hashed_content(each, names, types) for each in body if not _is_message(each)]
    if isinstance(node, str) and _TARGET.fullmatch(node):  # where something is, not what it is
        return "target"
    if not isinstance(node, ast.AST):
        return [type(node).__name__, repr(node)]
    # without the words of the error
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        return ["Raise", _hashed_content(node.exc.func, names, types)]
    if isinstance(node, ast.JoinedStr):  # Python 3.12.1 has empty parts in it
        node = ast.JoinedStr([part for part in node.values if getattr(part, "value", None) != ""])
    if (chain := _dotted_name(node)) is not None:
        names.add(chain)
        names = set()  # of `masks.causal`, not `masks`
    return [type(node).__name__, _hashed_fields(node, names, types)]


def _hashed_fields(node: ast.AST, names: set[str], types: set[str]) -> list[object]:
    content: list[object] = []
    for key in node._fields:
        value = getattr(node, key, None)
        if key in ("annotation", "returns"):
            _hashed_content(value, types, types)
        elif key not in _COMPUTES_NOTHING and value not in (None, []):
            content.append([key, _hashed_content(value, names, types)])
    return content


def _without_docstring(body: list[Any]) -> list[Any]:
    first = body[0] if body else None
    return (
        body[1:] if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else body
    )


def _is_message(node: object) -> bool:
    """Return whether a statement is a call of `log`."""
    call = node.value if isinstance(node, ast.Expr) else None
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and _dotted_name(call.func.value) == "log"
    )


def _dotted_name(node: object) -> str | None:
    """Return ``a.b.c`` of a name and its attributes; None for all else."""
    if isinstance(node, ast.Name):
        return node.id
    base = _dotted_name(node.value) if isinstance(node, ast.Attribute) else None
    return f"{base}.{node.attr}" if base is not None and isinstance(node, ast.Attribute) else None


def content_hash(value: object) -> str:
    """Return the sha256 of a plain value."""
    return hashlib.sha256(repr(value).encode()).hexdigest()
