"""What pydantic refuses, in one sentence with key and value; unknown keys and kinds get the nearest known one."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from recap.core.errors import nearest
from recap.core.plugins import HINT

_QUOTED = re.compile("'([^']*)'")
_LONGEST = 80  # characters of a wrong value that are repeated


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
    name, context, value = problem["type"], problem.get("ctx", {}), problem["input"]
    if name == "extra_forbidden":
        return f"unknown key {key!r}; {nearest(location[-1], _walk(kind, location[:-1])[1])}"
    if name == "union_tag_not_found":
        return f"the key {context['discriminator']} is missing"
    if name == "missing":
        return f"the key {key!r} is missing"
    if name == "union_tag_invalid":
        tag, field = context["tag"], context["discriminator"].strip("'")
        sentence = f"unknown {field} {tag!r}; {nearest(tag, _QUOTED.findall(context['expected_tags']))}"
        sentence += "" if key else f" ({HINT})"  # the kind of the file itself, which a plug-in may bring
    elif name == "literal_error":
        sentence = f"there is no {value!r:.{_LONGEST}}; {nearest(str(value), _QUOTED.findall(context['expected']))}"
    else:
        sentence = problem["msg"].removeprefix("Value error, ")
        helps = name != "value_error" or not isinstance(value, dict | list)
        sentence += f" (got {value!r})" if helps and len(repr(value)) <= _LONGEST else ""
    return f"{key}: {sentence}" if key else sentence


def _walk(kind: Any, location: list[str]) -> tuple[list[str], list[str]]:
    """Return the keys of the file on the way to a location, and those that are known there, by the JSON schema.

    Unions put the chosen tag, or the class, into a location; neither is a key of the file.
    """
    node = _schema(kind)
    definitions, keys, known = node.get("$defs", {}), [], set(node.get("properties", {}))
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
            node = _resolved(node.get("properties", {}).get(part) or node.get("items") or values, definitions)
        known = set(node.get("properties", {})) or known
    return keys, sorted(known)


def _resolved(child: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that a value may be; a union by kind stays whole, for its tag comes next."""
    if "discriminator" in child:
        return child
    options = [child, *child.get("anyOf", []), *child.get("oneOf", []), child.get("items", {})]
    names = [option["$ref"].rsplit("/", 1)[-1] for option in options if "$ref" in option]
    return definitions[names[0]] if names else child
