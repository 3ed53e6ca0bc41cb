"""A digest of the source that a job runs: of content, not of the files that hold it.

A module is taken apart into its top-level definitions. From where a job starts, each definition that another one names
is followed, in whatever module it is; the digest is one of all definitions reached and of what their names mean. So a
function that moves to another file, or a file that gets another name, leaves every digest as it is. The fields of
settings do not count, because a job gets their values in its spec, nor does what `recap.plan.syntax` leaves out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from recap.plan.syntax import Definition, Module, content_hash, read_module

_PACKAGE = Path(__file__).resolve().parents[1]
_SETTINGS = "pydantic.BaseModel"
# Files, messages and processes carry results and compute none; a test compares this list with what trainings run.
MACHINERY = (
    "recap.core.checksums",
    "recap.core.documents",
    "recap.core.errors",
    "recap.core.files",
    "recap.core.log",
    "recap.core.plugins",
    "recap.core.problems",
    "recap.core.process",
    "recap.features.hdf5",
    "recap.features.origins",
    "recap.features.write",
    "recap.plan.identities",
    "recap.plan.source",
    "recap.plan.syntax",
    "recap.settings.kinds",
    "recap.settings.params",
)


Place = tuple[str, str]  # module, name of a definition
Key = tuple[tuple[str, ...], tuple[str, ...]]  # where a job starts, and what is not followed
_digests: dict[Key, str] = {}


def reached(starts: Collection[str], without: Collection[str] = ()) -> set[Place]:
    """Return the definitions that a job may run.

    Args:
        starts: definitions, ``recap.training.run:train``, or modules, whose definitions all count.
        without: modules and packages that are not followed, beside `MACHINERY`: what is imported, but does not bear
            on the result.
    """
    for module in without:
        _file_of(module)
    left_out = (*MACHINERY, *without)
    todo = [place for start in starts for place in _start(start)]
    found: set[Place] = set()
    while todo:
        place = todo.pop()
        module, name = place
        if place in found or any(f"{module}.".startswith(f"{each}.") for each in left_out):
            continue
        found.add(place)
        todo += [
            target
            for each in _statements(place)
            for read in (*each.names, *each.types)
            for target in _meant(module, read)
        ]
        todo += [(module, "")] if name and "" in _parsed(module).definitions else []
    return found


def code_digest(*starts: str, without: Collection[str] = ()) -> str:
    """Return the digest of the definitions that a job may run: 16 hex digits. Arguments and errors: :func:`reached`.

    Snakemake sees only its own rules; rules pass this as a parameter, so that a changed layer retrains what uses it.
    """
    key = starts, tuple(without)
    if key not in _digests:
        _digests[key] = _code_digest(*key)
    return _digests[key]


def known_digests() -> dict[Key, str]:
    """Return the digests that this process has computed, by the arguments of :func:`code_digest`."""
    return dict(_digests)


def take_digests(digests: Mapping[Key, str]) -> None:
    """Take the digests of a process that reads the same source, in place of reading all of it again."""
    _digests.update(digests)


def _code_digest(starts: tuple[str, ...], without: tuple[str, ...]) -> str:
    places = reached(starts, without)
    # Of a class of settings the fields do not count.
    fieldless = {place: _is_settings(place) for place in places}
    hashes = {
        place: content_hash([each.without_fields if fieldless[place] else each.hash for each in _statements(place)])
        for place in places
    }
    # What a name means is part of what a definition computes: two of one name in two modules may change places.
    for _ in range(3):
        hashes = {place: content_hash([hashes[place], *_meanings(place, hashes)]) for place in places}
    return content_hash(sorted(set(hashes.values())))[:16]


def module_file(name: str) -> Path | None:
    """Return the file of a module, ``recap.training.run`` or one outside of the package; None if there is none."""
    if name == _PACKAGE.name or name.startswith(f"{_PACKAGE.name}."):
        path = _PACKAGE.parent.joinpath(*name.split("."))
        return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


def _file_of(module: str) -> Path:
    file = module_file(module)
    if file is None:
        raise LookupError(f"there is no module {module!r}")
    return file


def _start(start: str) -> Sequence[Place]:
    module, _, name = start.partition(":")
    _file_of(module)
    places = _meant(module, name) if name else _all_of(module)
    if name and not places:
        raise LookupError(f"there is no {name!r} in module {module!r}")
    return places


def _all_of(module: str) -> list[Place]:
    return [(module, name) for name in _parsed(module).definitions]


def _statements(place: Place) -> list[Definition]:
    module, name = place
    return _parsed(module).definitions.get(name, [])


@cache
def _is_settings(place: Place) -> bool:
    """Return whether a definition is a class below pydantic's."""
    module, _ = place
    return any(
        _dotted(module, base) == _SETTINGS or any(_is_settings(parent) for parent in _meant(module, base))
        for each in _statements(place)
        for base in each.bases
    )


def _dotted(module: str, name: str) -> str:
    """Return a name as its import has it: ``pydantic.BaseModel``."""
    first, dot, rest = name.partition(".")
    return _parsed(module).imports.get(first, [first])[0] + dot + rest


def _meanings(place: Place, hashes: dict[Place, str]) -> list[str]:
    """Return what the names in a definition mean: hashes of what they stand for, or where outside of the package."""
    return [
        f"{name.rpartition('.')[2]}={','.join([hashes.get(each, '') for each in meant])}{outside}"
        for name, meant, outside in _read(place)
    ]


@cache
def _read(place: Place) -> list[tuple[str, tuple[Place, ...], str]]:
    """Return the names in a definition, each with what it may stand for, else with where outside it is."""
    module, _ = place
    names = sorted({name for each in _statements(place) for name in each.names})
    return [(name, meant := _meant(module, name), "" if meant else _outside(module, name)) for name in names]


def _outside(module: str, name: str) -> str:
    """Return what is imported from elsewhere under a name, ``math.floor``; nothing of the package's own."""
    dotted = _dotted(module, name)
    return "" if dotted.startswith(f"{_PACKAGE.name}.") else dotted


@cache
def _meant(module: str, name: str) -> tuple[Place, ...]:
    """Return the definitions that a name in a module may mean; none for built-ins, arguments and other packages."""
    first, _, rest = name.partition(".")
    known = _parsed(module)
    if first in known.definitions:
        return ((module, first),)
    targets = [f"{target}.{rest}" if rest else target for target in known.imports.get(first, [])]
    return tuple(place for target in targets for place in _found(target, module))


def _found(dotted: str, origin: str) -> Iterator[Place]:
    """Yield the definitions at ``recap.nn.masks.causal``; at a module, all of it."""
    if dotted.partition(".")[0] not in (_PACKAGE.name, origin.partition(".")[0]):
        return
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        if module_file(module) is not None:
            rest = ".".join(parts[length:])
            yield from _meant(module, rest) if rest else _all_of(module)
            return


@cache
def _parsed(name: str) -> Module:
    return read_module(_file_of(name), name)
