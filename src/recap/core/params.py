"""Reads ``params/``: follows ``base:``, validates, and names file and key when something is off."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from recap.core.config import SECTIONS, Profile
from recap.core.errors import ConfigError, nearest
from recap.core.files.yaml_files import read_mapping
from recap.core.problems import adapter, first_problem

__all__ = ["load_named", "load_profile", "merged", "read_mapping", "resolve", "validate"]


def load_named(params: Path, section: str, name: str) -> Any:
    """Load ``params/<section>/<name>.yaml`` as its config class.

    Raises:
        ConfigError: the name is unknown (nearest names are suggested), or a key or value is refused.
    """
    return validate(SECTIONS[section], resolve(params, section, name), f"{params.name}/{section}/{name}.yaml")


def resolve(params: Path, section: str, name: str, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the mapping of one file with its chain of ``base:`` files merged below it."""
    path = params / section / f"{name}.yaml"
    known = [file.stem for file in (params / section).glob("*.yaml")]
    if name not in known:
        raise ConfigError(f"{params.name}/{section}: there is no {name!r}; {nearest(name, known)}")
    if name in seen:
        raise ConfigError(f"{path}: `base` goes in a circle: {' -> '.join((*seen, name))}")
    values = read_mapping(path)
    base = values.pop("base", None)
    if not isinstance(base, str | None):
        raise ConfigError(f"{path}: base: must be the name of a file beside this one (got {base!r})")
    return values if base is None else merged(resolve(params, section, base, (*seen, name)), values)


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


def load_profile(values: dict[str, Any], source: str) -> Profile:
    """Validate the mapping of a profile."""
    profile: Profile = validate(Profile, values, source)
    return profile
