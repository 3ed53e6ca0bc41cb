"""Reads ``params/``: finds files, follows ``base:``,
validates, and names file and key when something is off.

Shared files are in ``<section>/``, those of a paper in ``<paper>/<section>/``. Every folder of
``params/`` that is no section is one of a paper, or of a group: there is no list of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema

from recap.core.documents import adapter, first_problem, read_mapping, write_json
from recap.core.errors import ConfigError, UnknownName, nearest
from recap.settings import SECTIONS, PaperProfile, Profile, TableFile, TableOfParts, Titles
from recap.settings.tables import part_of

# named after the paper: params/mine/tables/t3.yaml is mine/t3
_OF_A_PAPER = ("tables", "figures", "studies")
_NO_PROFILES = ("titles.yaml", "rehearsal.yaml")


def papers(params: Path) -> list[str]:
    """Return the names of the papers' folders."""
    folders = params.iterdir() if params.is_dir() else ()
    return sorted(path.name for path in folders if path.is_dir() and path.name not in SECTIONS)


def _by_name(params: Path, section: str) -> dict[str, list[Path]]:
    """Return the files of a section by their names, of one name the shared file first."""
    by_name: dict[str, list[Path]] = {}
    for paper in ("", *papers(params)):
        before = f"{paper}/" if paper and section in _OF_A_PAPER else ""
        for file in sorted((params / paper / section).glob("*.yaml")):
            by_name.setdefault(before + file.stem, []).append(file)
    return by_name


def names(params: Path, section: str) -> list[str]:
    """Return the names of all files of a section, sorted.

    Of a table with parts, those of its parts in their order.
    """
    stems = sorted(_by_name(params, section))
    return tables_named(params, stems) if section == "tables" else stems


def tables_named(params: Path, names: Iterable[str]) -> list[str]:
    """Return the tables that names mean:
    that of a file with parts means all of them (``mine/t1_f001`` ...)."""
    by_name = _by_name(params, "tables")
    tables: list[str] = []
    for name in names:
        parts: list[str] = []
        for path in by_name.get(name, []):
            own = read_mapping(path).get("parts")
            parts += own if isinstance(own, dict) else []
        tables += [f"{name}_{part}" for part in parts] or [name]
    return tables


def file_and_part(params: Path, name: str) -> tuple[str, str | None]:
    """Return the name of the file that has a table,
    and the part of it that the table is (``t1_f001`` of ``t1``)."""
    for table in _by_name(params, "tables"):
        if name.startswith(f"{table}_") and name in tables_named(params, [table]):
            return table, name.removeprefix(f"{table}_")
    return name, None


def files(params: Path, section: str, name: str) -> list[Path]:
    """Return the files with a name, the shared one first.

    A part of a table has the file of that table.
    """
    return _by_name(params, section).get(
        file_and_part(params, name)[0] if section == "tables" else name, []
    )


def label(params: Path, path: Path) -> str:
    """Return what messages call a file of ``params/``."""
    return f"{params.name}/{path.relative_to(params).as_posix()}"


def profiles(params: Path) -> list[Path]:
    """Return the files of all profiles."""
    shared = (path for path in params.glob("*.yaml") if path.name not in _NO_PROFILES)
    return [*sorted(shared), *sorted(params.glob("*/profile.yaml"))]


def load_named(params: Path, section: str, name: str) -> Any:
    """Load the file of a section by its name as its config class."""
    layers = base_files(params, section, name)
    if section == "scales":  # of several files: a mistake is one of its file
        for source, values in layers:
            validate(SECTIONS[section], values, source)
    settings = validate(SECTIONS[section], _merged_all(layers), layers[-1][0])
    if section == "scales" and not settings.opening:
        raise ConfigError(f"{params.name}/{section}/{name}.yaml: the key 'opening' is missing")
    return settings


def base_files(params: Path, section: str, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return path and values of a file and of those that it has
    as ``base:``, the lowest first, without that key."""
    layers: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    base: str | None = name
    while base is not None:
        if base in layers:
            where = layers[base][0][0]
            raise ConfigError(f"{where}: `base` goes in a circle: {' -> '.join((*layers, base))}")
        layers[base] = _read(params, section, base)
        # of several files of a scale, one has it
        bases = [str(values.pop("base")) for _, values in layers[base] if "base" in values]
        base = bases[0] if bases else None
    return list(chain.from_iterable(reversed(layers.values())))


def _read(params: Path, section: str, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return path and values of the one file of a name, or of all files of a scale."""
    layers = [(label(params, path), read_mapping(path)) for path in files(params, section, name)]
    if not layers:
        nearby = nearest(name, names(params, section))
        raise UnknownName(f"{params.name}: there is no {name!r} in {section}; {nearby}")
    if len(layers) > 1 and section != "scales":
        raise ConfigError(f"{layers[0][0]} and {layers[1][0]} have the same name; rename one")
    if section == "tables":
        return [(source, _one_table(params, name, source, values)) for source, values in layers]
    _refuse_twice(layers)
    return layers


def _refuse_twice(layers: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Refuse a key that two files of a scale have."""
    owners: dict[str, str] = {}  # `seeds` or `models.transformer` -> file
    for source, values in layers:
        for key, value in values.items():
            for entry in [f"{key}.{each}" for each in value] if isinstance(value, dict) else [key]:
                if owners.setdefault(entry, source) != source:
                    raise ConfigError(
                        f"{owners[entry]} and {source} both have the key {entry!r}; remove it from "
                        "one"
                    )


def _one_table(params: Path, name: str, source: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a table, of a file with parts those of the part that the table is."""
    if "parts" not in values:
        return values
    validate(TableOfParts, values, source)
    part = file_and_part(params, name)[1]
    if part is None:
        raise UnknownName(
            f"{source}: is a table with parts; name one: {', '.join(tables_named(params, [name]))}"
        )
    return part_of(values, part)


def resolve(params: Path, section: str, name: str) -> dict[str, Any]:
    """Return the mapping of one file with its chain of ``base:`` files merged below it."""
    return _merged_all(base_files(params, section, name))


def _merged_all(layers: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for _, changes in layers:
        values = merged(values, changes)
    return values


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings by dotted key; lists and empty mappings are leaves."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value:
            leaves |= flat(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``changes`` laid over it, mapping by mapping.

    Lists and scalars are replaced.
    """
    result = copy.deepcopy(base)
    for key, value in changes.items():
        below = result.get(key)  # of another kind its keys mean other things
        if (
            isinstance(value, dict)
            and isinstance(below, dict)
            and value.get("kind") in (None, below.get("kind"))
        ):
            value = merged(below, value)
        result[key] = value
    return result


def validate(kind: Any, values: Any, source: str) -> Any:
    """Build a config object; a refusal is one sentence with file, key and remedy."""
    try:
        return adapter(kind).validate_python(values)
    except ValidationError as error:
        raise ConfigError(f"{source}: {first_problem(error, kind)}") from error


def profiles_of_tables(params: Path) -> dict[str, list[str]]:
    """Return the name of every table with the profiles that ask for it."""
    users: dict[str, list[str]] = {name: [] for name in names(params, "tables")}
    for path in profiles(params):
        for profile in load_profiles(path):
            for name in profile_tables(params, profile):
                users.setdefault(name, []).append(profile.name)
    return users


def profile_tables(params: Path, profile: Profile) -> list[str]:
    """Return the tables of a profile, then those that its figures draw."""
    tables = list(profile.tables)
    for figure in profile.figures:
        tables += load_named(params, "figures", figure).tables
    return list(dict.fromkeys(tables_named(params, tables)))


def load_profiles(path: Path) -> list[Profile]:
    """Load the profile of a file, at each of its scales."""
    values = read_mapping(path)
    at_scales = [values]
    if isinstance(values.get("scales"), dict):
        at_scales = [{**values, "scale": scale} for scale in values["scales"]]
    return [load_profile(each, str(path)) for each in at_scales]


def load_profile(values: dict[str, Any], source: str) -> Profile:
    """Validate the mapping of a profile.

    One with ``scales`` becomes the profile of its scale, named after both.
    """
    if "scales" not in values:
        return validate(Profile, values, source)
    paper: PaperProfile = validate(PaperProfile, values, source)
    if paper.scale is None or paper.scale not in paper.scales:
        raise UnknownName(
            f"{source}: there is no scale {paper.scale!r}; choose one with --config scale=NAME: "
            f"{', '.join(paper.scales)}"
        )
    common = {key: value for key, value in values.items() if key not in ("scale", "scales")}
    at_scale = {"scale": paper.scale} | merged(paper.scales[paper.scale], common)
    at_scale |= {"name": f"{paper.name}_{paper.scale}"}
    return validate(Profile, at_scale, f"{source}: scales.{paper.scale}")


def refuse_other_scale(values: Mapping[str, Any], written: Mapping[str, Any], file: str) -> None:
    """Refuse a profile at another scale than its file's: both would share one folder."""
    renamed = values.get("name") != written.get("name") or "scales" in written
    if not renamed and values.get("scale") != written.get("scale"):
        raise ConfigError(
            f"{file}: its results are at the scale {written.get('scale')!r}; for another scale add "
            "name=NAME to --config"
        )


def write_schemas(out: Path) -> list[Path]:
    """Write the JSON schema of each kind of file, for editors, into ``out``; return the paths."""
    kinds = {
        "profile": Profile | PaperProfile,
        "titles": Titles,
        **SECTIONS,
        "tables": TableFile | TableOfParts,
    }
    schemas = {out / f"{name}.schema.json": _schema(name, kind) for name, kind in kinds.items()}
    for path, schema in schemas.items():
        write_json(path, schema)
    return list(schemas)


class _WithoutRequired(GenerateJsonSchema):
    """Every key may be left out, also the kind: the ``base`` file may have it."""

    def field_is_required(self, *_: Any, **__: Any) -> bool:
        return False

    def tagged_union_schema(self, schema: Any) -> dict[str, Any]:
        return {"anyOf": super().tagged_union_schema(schema)["oneOf"]}


def _schema(name: str, kind: Any) -> dict[str, Any]:
    schema = adapter(kind).json_schema(schema_generator=_WithoutRequired)
    if name in SECTIONS:
        says = "name of another file of this section: as that one, except for the keys here"
        _add_base(schema, schema, {"type": "string", "description": says})
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"recap params: {name}",
    }
    return {**schema, **head}


def _add_base(node: dict[str, Any], schema: dict[str, Any], base: dict[str, Any]) -> None:
    """Add the key `base` to the objects that a file may be: one, or the kinds it chooses from."""
    for option in node.get("anyOf", ()):
        _add_base(option, schema, base)
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]
    if "properties" in node:
        node["properties"]["base"] = base
