"""Reads ``params/``: follows ``base:``, validates, and names file and key when something is off."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from recap.core.documents import read_mapping
from recap.core.errors import ConfigError, UnknownName, nearest
from recap.core.problems import adapter, first_problem
from recap.settings import SECTIONS, PaperProfile, Profile
from recap.settings.param_files import SCALES, TABLES, file_and_part, files, label, names, profiles, tables_named
from recap.settings.table_parts import TableOfParts, part_of


def load_named(params: Path, section: str, name: str) -> Any:
    """Load the file of a section by its name as its config class.

    Raises:
        ConfigError: the name is unknown (nearest names are suggested), two files have it, or a key or value is refused.
    """
    layers = base_files(params, section, name)
    if section == SCALES:
        for source, values in layers:
            validate(SECTIONS[section], values, source)
    loaded = validate(SECTIONS[section], reduce(merged, (values for _, values in layers)), layers[-1][0])
    if section == SCALES and not loaded.opening:
        raise ConfigError(f"{params.name}/{SCALES}/{name}.yaml: the key 'opening' is missing")
    return loaded


def base_files(params: Path, section: str, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return path and values of a file and of those that it has as ``base:``, the lowest first, without that key.

    Raises:
        ConfigError: a name is unknown, two files have it, or the bases go in a circle.
    """
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    base: Any = name
    while base is not None:
        if base in found:
            where = found[base][0][0]
            raise ConfigError(f"{where}: `base` goes in a circle: {' -> '.join((*found, base))}")
        found[base] = _parts(params, section, base)
        bases = [(source, values.pop("base")) for source, values in found[base] if "base" in values]
        for source, base in bases:
            if not isinstance(base, str):
                raise ConfigError(f"{source}: base: must be the name of another file of {section} (got {base!r})")
        base = bases[0][1] if bases else None
    return [part for parts in reversed(found.values()) for part in parts]


def _parts(params: Path, section: str, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return path and values of the one file of a name, or of all files of a scale."""
    paths = files(params, section, name)
    if not paths:
        nearby = nearest(name, names(params, section))
        raise UnknownName(f"{params.name}: there is no {name!r} in {section}; {nearby}")
    if len(paths) > 1 and section != SCALES:
        one, other = (label(params, path) for path in paths[:2])
        raise ConfigError(f"{one} and {other} have the same name; rename one")
    parts = [(label(params, path), read_mapping(path)) for path in paths]
    if section == TABLES:
        return [(source, _one_table(params, name, source, values)) for source, values in parts]
    where: dict[str, str] = {}
    for source, values in parts:
        for key in _entries(values):
            if where.setdefault(key, source) != source:
                raise ConfigError(f"{where[key]} and {source} both have the key {key!r}; remove it from one")
    return parts


def _one_table(params: Path, name: str, source: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a table, of a file with parts those of the part that the table is."""
    if "parts" not in values:
        return values
    validate(TableOfParts, values, source)
    part = file_and_part(params, name)[1]
    if part is None:
        known = ", ".join(tables_named(params, [name]))
        raise UnknownName(f"{source}: is a table with parts; name one: {known}")
    return part_of(values, part)


def _entries(values: dict[str, Any]) -> list[str]:
    """Return the keys that only one file of a scale may have: `seeds`, `models.transformer`."""
    return [
        name
        for key, value in values.items()
        for name in ([f"{key}.{entry}" for entry in value] if isinstance(value, dict) else [key])
    ]


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
    for path in profiles(params):
        for profile in load_profiles(path):
            drawn = [name for figure in profile.figures for name in load_named(params, "figures", figure).tables]
            for name in dict.fromkeys(tables_named(params, [*profile.tables, *drawn])):
                found.setdefault(name, []).append(profile.name)
    return found


def load_profiles(path: Path) -> list[Profile]:
    """Load the profile of a file, at each of its scales.

    Raises:
        ConfigError: a key or value is refused.
    """
    values = read_mapping(path)
    scales = values.get("scales")
    at_scales = [{**values, "scale": scale} for scale in scales] if isinstance(scales, dict) else [values]
    return [load_profile(each, str(path)) for each in at_scales]


def load_profile(values: dict[str, Any], source: str) -> Profile:
    """Validate the mapping of a profile; one with ``scales`` becomes the profile of its scale, named after both.

    An entry of ``scales`` that names a ``scale`` itself is a further set of tables at that scale.

    Raises:
        ConfigError: a key or value is refused, or the scale is none of `scales`.
    """
    if "scales" not in values:
        profile: Profile = validate(Profile, values, source)
        return profile
    paper: PaperProfile = validate(PaperProfile, values, source)
    if paper.scale is None:
        raise ConfigError(f"{source}: choose a scale with --config scale=NAME: {', '.join(paper.scales)}")
    if paper.scale not in paper.scales:
        raise UnknownName(f"{source}: there is no scale {paper.scale!r}; {nearest(paper.scale, paper.scales)}")
    common = {key: value for key, value in values.items() if key not in ("scale", "scales")}
    at_scale = {"scale": paper.scale} | merged(paper.scales[paper.scale], common)
    at_scale |= {"name": f"{paper.name}_{paper.scale}"}
    scaled: Profile = validate(Profile, at_scale, f"{source}: scales.{paper.scale}")
    return scaled


def refuse_other_scale(values: Mapping[str, Any], written: Mapping[str, Any], file: str) -> None:
    """Refuse a scale that replaces the one of a profile's file: the results of both would be in one folder.

    Args:
        values: the profile as it is run.
        written: the profile as its file has it.
        file: its path.

    Raises:
        ConfigError: the scale is another one, and the name is not.
    """
    changed = values.get("scale") != written.get("scale") and values.get("name") == written.get("name")
    if changed and "scales" not in written:
        own = f"at scale {written['scale']!r}" if written.get("scale") else "without a scale"
        raise ConfigError(f"{file}: its results are {own}; for another scale add name=NAME to --config")
