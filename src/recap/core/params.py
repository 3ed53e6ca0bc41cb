"""Reads ``params/``: follows ``base:``, validates, and names file and key when something is off."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from recap.core.config import SECTIONS, Profile
from recap.core.errors import ConfigError, nearest


def load_named(params: Path, section: str, name: str) -> Any:
    """Load ``params/<section>/<name>.yaml`` as its config class.

    Raises:
        ConfigError: the name is unknown (nearest names are suggested), or a key or value is refused.
    """
    return validate(SECTIONS[section], resolve(params, section, name), f"{params.name}/{section}/{name}.yaml")


def resolve(params: Path, section: str, name: str, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the mapping of one file with its chain of ``base:`` files merged below it."""
    path = params / section / f"{name}.yaml"
    if not path.exists():
        known = [file.stem for file in (params / section).glob("*.yaml")]
        raise ConfigError(f"{params.name}/{section}: there is no {name!r}; {nearest(name, known)}")
    if name in seen:
        raise ConfigError(f"{path}: `base` goes in a circle: {' -> '.join((*seen, name))}")
    values = read_mapping(path)
    base = values.pop("base", None)
    return values if base is None else merged(resolve(params, section, base, (*seen, name)), values)


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top is a mapping."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected keys and values at the top of the file")
    return values


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``changes`` laid over it, mapping by mapping; lists and scalars are replaced."""
    result = copy.deepcopy(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def validate(kind: Any, values: dict[str, Any], source: str) -> Any:
    """Build a config object; the first thing refused becomes one sentence with file, key and remedy."""
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        raise ConfigError(f"{source}: {_first_problem(error, kind)}") from error


def load_profile(values: dict[str, Any], source: str) -> Profile:
    """Validate the mapping of a profile."""
    profile: Profile = validate(Profile, values, source)
    return profile


def _first_problem(error: ValidationError, kind: Any) -> str:
    """Say the first problem in words; unknown keys and kinds get the nearest known one."""
    # A misspelt key also leaves its right form missing: say the misspelling, it explains both.
    problem = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    location = [str(part) for part in problem["loc"]]
    # Unions put the chosen tag, or the class, into the location; neither is a key of the file.
    schema = TypeAdapter(kind).json_schema()
    tags = schema.get("discriminator", {}).get("mapping", {})
    inner = location[1:] if location and location[0] in tags else location
    key = ".".join(part for part in inner if part not in schema.get("$defs", {}))
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key!r}; {nearest(location[-1], _known_keys(kind, location))}"
    if problem["type"] == "union_tag_invalid":
        tag = problem["ctx"]["tag"]
        return f"unknown kind {tag!r}; {nearest(tag, tags)}"
    if problem["type"] == "union_tag_not_found":
        return "the key 'kind' is missing"
    if problem["type"] == "missing":
        return f"the key {key!r} is missing"
    return f"{key or 'the file'}: {problem['msg'].removeprefix('Value error, ')} (got {problem['input']!r})"[:400]


def _known_keys(kind: Any, location: list[str]) -> list[str]:
    """Return the keys allowed beside the last part of ``location``, from the JSON schema of ``kind``."""
    schema = TypeAdapter(kind).json_schema()
    definitions = schema.get("$defs", {})
    keys: set[str] = set(schema.get("properties", {}))
    node = schema
    for part in location[:-1]:
        if part in definitions:
            node = definitions[part]
        elif part in node.get("discriminator", {}).get("mapping", {}):
            node = definitions[node["discriminator"]["mapping"][part].rsplit("/", 1)[-1]]
        else:
            child = node.get("properties", {}).get(part) or node.get("items", {})
            options = [child, *child.get("anyOf", []), *child.get("oneOf", []), child.get("items", {})]
            names = [option["$ref"].rsplit("/", 1)[-1] for option in options if "$ref" in option]
            node = definitions[names[0]] if names else child
        keys = set(node.get("properties", {})) or keys
    return sorted(keys)
