"""JSON and YAML: read strictly, one sentence with file and key for what is refused.

Equal values give equal bytes.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from recap.core.errors import ConfigError, DamagedFile, RecapError, nearest
from recap.core.files import reading, write_text

# What PyYAML's own constructors let out for a date, a number or a tag that is none.
_NO_VALUE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)
_AGAIN = "delete it and repeat the command that makes it"
_QUOTED = re.compile("'([^']*)'")
_LONGEST = 80  # characters of a wrong value that are repeated
_LONGEST_VALUE = 60  # characters of a value in a difference
_SAME = 20  # of them before two long values differ
HINT = "if it is one of your own, name its module in RECAP_PLUGINS"


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as JSON with sorted keys, atomically; equal values give equal bytes."""
    write_text(
        path,
        json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n",
    )


def read_json(path: str | Path, kind: Any = Any) -> Any:
    """Read a JSON file that a job made, as a type that pydantic knows."""
    with reading(path, RecapError, missing="run the step that makes it first", damaged=_AGAIN):
        content = Path(path).read_bytes()
    return parse_json(content, str(path), kind)


def parse_json(content: bytes, source: str, kind: Any = Any) -> Any:
    """Return what a JSON text holds; ``source`` says where it is from."""
    try:
        return adapter(kind).validate_python(from_json(content, allow_inf_nan=False))
    except ValueError as error:
        problem = f"not valid JSON ({error})"
        if isinstance(error, ValidationError):
            problem = first_problem(error, kind)
        raise DamagedFile(f"{source}: {problem}; {_AGAIN}") from error


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top is a mapping."""
    with reading(path, ConfigError, missing="correct its name", damaged="save it as UTF-8"):
        text = path.read_text(encoding="utf-8")
    values = parse(text, str(path))
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected keys and values at the top of the file")
    return values


def parse(text: str, source: str) -> Any:
    """Return the value that a YAML text, from ``source``, is."""
    try:
        return copy.deepcopy(_parsed(text))
    except (yaml.YAMLError, RecursionError, *_NO_VALUE) as error:
        what = str(error)
        if isinstance(error, yaml.MarkedYAMLError):
            mark = error.problem_mark or error.context_mark
            source += f" line {mark.line + 1}" if mark else ""
            what = f"{error.context or ''} {error.problem}"
        elif isinstance(error, RecursionError):
            what = "its values are nested too deep; write it with fewer levels"
        raise ConfigError(f"{source}: not valid YAML: {' '.join(what.split())}") from error


@lru_cache(maxsize=512)  # a plan reads the same files for every row, and parsing is slow
def _parsed(text: str) -> Any:
    return yaml.load(text, _Loader)  # a SafeLoader


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[Any, int] = {}
        for key_node, _ in node.value:
            if (
                not isinstance(key_node, yaml.ScalarNode)
                or key_node.tag == "tag:yaml.org,2002:merge"
            ):
                continue
            key = self.construct_object(key_node)
            mark = key_node.start_mark
            if key in lines:
                both = f"in lines {lines[key]} and {mark.line + 1}"
                wrong = f"the key {key!r} is duplicated, {both}; remove one of them"
                raise yaml.constructor.ConstructorError(None, None, wrong, mark)
            lines[key] = mark.line + 1
        return super().construct_mapping(node, deep)


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return what validates a kind of settings; created once per process."""
    return TypeAdapter(kind)


@cache
def _schema(kind: Any) -> dict[str, Any]:
    return adapter(kind).json_schema()


def first_problem(error: ValidationError, kind: Any) -> str:
    """Say the first problem in words."""
    # A misspelt key also leaves its right form missing: say the misspelling, it explains both.
    problem = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    location = [str(part) for part in problem["loc"] if part != "[key]"]
    key = ".".join(_walk(kind, location)[0])
    name = problem["type"]
    context = problem.get("ctx", {})
    value = problem["input"]
    if name == "extra_forbidden":
        return f"unknown key {key!r}; {nearest(location[-1], _walk(kind, location[:-1])[1])}"
    if name == "union_tag_not_found":
        return f"the key {context['discriminator']} is missing"
    if name == "missing":
        return f"the key {key!r} is missing"
    if name == "union_tag_invalid":
        tag = context["tag"]
        field = context["discriminator"].strip("'")
        sentence = (
            f"unknown {field} {tag!r}; {nearest(tag, _QUOTED.findall(context['expected_tags']))}"
        )
        # the kind of the file itself, which a plug-in may bring
        sentence += "" if key else f" ({HINT})"
    elif name == "literal_error":
        sentence = (
            f"there is no {value!r:.{_LONGEST}}; "
            f"{nearest(str(value), _QUOTED.findall(context['expected']))}"
        )
    elif name == "list_type" and isinstance(value, str | int | float):
        sentence = (
            f"must be a list: write [{value}], and on a command line '{key}=[{value}]' in quotes"
        )
    else:
        sentence = problem["msg"].removeprefix("Value error, ")
        helps = name != "value_error" or not isinstance(value, dict | list)
        sentence += f" (got {value!r})" if helps and len(repr(value)) <= _LONGEST else ""
    return f"{key}: {sentence}" if key else sentence


def _walk(kind: Any, location: list[str]) -> tuple[list[str], list[str]]:
    """Return the keys of the file on the way to a location,
    and those that are known there, by the JSON schema.

    Unions put the chosen tag, or the class, into a location; neither is a key of the file.
    """
    node = _schema(kind)
    definitions = node.get("$defs", {})
    keys = []
    known = set(node.get("properties", {}))
    for part in location:
        tags = node.get("discriminator", {}).get("mapping", {})
        if part in definitions:
            node = definitions[part]
        elif part in tags:
            node = definitions[tags[part].rsplit("/", 1)[-1]]
        else:
            keys.append(part)
            # Else the values of a list, or of a mapping with keys of the user's own.
            values: dict[str, Any] = node.get("additionalProperties") or next(
                iter(node.get("patternProperties", {}).values()), {}
            )
            node = node.get("properties", {}).get(part) or node.get("items") or values
            options = [node, *node.get("anyOf", []), *node.get("oneOf", []), node.get("items", {})]
            names = [option["$ref"].rsplit("/", 1)[-1] for option in options if "$ref" in option]
            # a union by kind stays whole, for its tag comes next
            if names and "discriminator" not in node:
                node = definitions[names[0]]
        known = set(node.get("properties", {})) or known
    return keys, sorted(known)


def differences(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    names: Mapping[str, str] | None = None,
    prefix: str = "",
) -> list[str]:
    """Return the keys in which nested mappings differ, with both values.

    Keys at the top may have other names.
    """
    lines = []
    for key in sorted({*old, *new}):
        path = prefix + (names or {}).get(key, key)
        first = old.get(key)
        second = new.get(key)
        if isinstance(first, dict) and isinstance(second, dict):
            lines += differences(first, second, None, f"{path}.")
        elif key not in old:
            lines.append(f"{path} (new) {_cut(json.dumps(second))}")
        elif key not in new:
            lines.append(f"{path} (gone)")
        elif first != second:
            texts = [json.dumps(first), json.dumps(second)]
            start = max(0, len(os.path.commonprefix(texts)) - _SAME)
            lines.append(f"{path} {_cut(texts[0], start)} -> {_cut(texts[1], start)}")
    return lines


def _cut(text: str, start: int = 0) -> str:
    """Return a text as it is, or the part of a long one from ``start`` on, with ``...`` for what is
    left out."""
    if len(text) <= _LONGEST_VALUE:
        return text
    end = start + _LONGEST_VALUE
    before = "..." if start > 0 else ""
    after = "..." if end < len(text) else ""
    return f"{before}{text[start:end]}{after}"
