"""Reads ``params/``: follows ``base:``, validates, and names file and key when something is off."""

from __future__ import annotations

import copy
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from recap.core.errors import ConfigError, nearest
from recap.core.files.yaml_files import read_mapping
from recap.core.problems import adapter, first_problem
from recap.settings import SECTIONS, Profile

__all__ = [
    "base_files",
    "load_named",
    "load_profile",
    "merged",
    "names",
    "profiles_of_tables",
    "read_mapping",
    "resolve",
    "validate",
]


def load_named(params: Path, section: str, name: str) -> Any:
    """Load ``params/<section>/<name>.yaml`` as its config class.

    Raises:
        ConfigError: the name is unknown (nearest names are suggested), or a key or value is refused.
    """
    return validate(SECTIONS[section], resolve(params, section, name), f"{params.name}/{section}/{name}.yaml")


def names(params: Path, section: str) -> list[str]:
    """Return the names of the files of a section, sorted; those in a folder of it are called ``folder/name``."""
    folder = params / section
    return sorted(file.relative_to(folder).with_suffix("").as_posix() for file in folder.rglob("*.yaml"))


def base_files(params: Path, section: str, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return path and values of a file and of those that it has as ``base:``, the lowest first, without that key.

    Raises:
        ConfigError: a name is unknown, or the bases go in a circle.
    """
    found: dict[str, dict[str, Any]] = {}
    base: Any = name
    while base is not None:
        path = params / section / f"{base}.yaml"
        if base in found:
            raise ConfigError(f"{path}: `base` goes in a circle: {' -> '.join((*found, base))}")
        if not _exists(params / section, base):
            raise ConfigError(f"{params.name}/{section}: there is no {base!r}; {nearest(base, names(params, section))}")
        found[base] = read_mapping(path)
        base = found[base].pop("base", None)
        if not isinstance(base, str | None):
            raise ConfigError(f"{path}: base: must be the name of a file beside this one (got {base!r})")
    return [(f"{params.name}/{section}/{name}.yaml", values) for name, values in reversed(found.items())]


def _exists(folder: Path, name: str) -> bool:
    """Return whether a section has a file of this name; `../a`, `/a` and other spellings of a name have none."""
    if Path(name).is_absolute() or ".." in Path(name).parts or Path(name).as_posix() != name:
        return False
    try:
        return (folder / f"{name}.yaml").is_file()
    except (OSError, ValueError):  # no file can have such a name
        return False


def resolve(params: Path, section: str, name: str) -> dict[str, Any]:
    """Return the mapping of one file with its chain of ``base:`` files merged below it."""
    return reduce(merged, (values for _, values in base_files(params, section, name)))


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings by dotted key; lists and empty mappings are leaves."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return found


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``changes`` laid over it, mapping by mapping; lists and scalars are replaced.

    A mapping within that names another ``kind`` takes the other's place: its keys mean other things.
    """
    result = copy.deepcopy(base)
    for key, value in changes.items():
        below = result.get(key)
        if isinstance(value, dict) and isinstance(below, dict) and value.get("kind") in (None, below.get("kind")):
            value = merged(below, value)
        result[key] = value
    return result


def validate(kind: Any, values: dict[str, Any], source: str) -> Any:
    """Build a config object; the first thing refused becomes one sentence with file, key and remedy."""
    try:
        return adapter(kind).validate_python(values)
    except ValidationError as error:
        raise ConfigError(f"{source}: {first_problem(error, kind)}") from error


def profiles_of_tables(params: Path) -> dict[str, list[str]]:
    """Return the name of every table with the profiles that ask for it.

    Raises:
        ConfigError: a profile is no valid one.
    """
    found: dict[str, list[str]] = {name: [] for name in names(params, "tables")}
    for path in sorted(params.glob("*.yaml")):
        values = read_mapping(path)
        if "tables" in values:
            profile = load_profile(values, str(path))
            drawn = [name for figure in profile.figures for name in load_named(params, "figures", figure).tables]
            for name in dict.fromkeys([*profile.tables, *drawn]):
                found.setdefault(name, []).append(path.stem)
    return found


def load_profile(values: dict[str, Any], source: str) -> Profile:
    """Validate the mapping of a profile."""
    profile: Profile = validate(Profile, values, source)
    return profile
