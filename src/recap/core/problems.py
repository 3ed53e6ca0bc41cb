"""What pydantic refuses, in one plain sentence with key, value and remedy."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from recap.core.errors import nearest
from recap.core.plugins import HINT

_WHOLE, _NUMBER, _TEXT, _SWITCH = (
    "must be a whole number",
    "must be a number",
    "must be a text",
    "must be true or false",
)
_KEYS, _LIST, _DATE = "must be keys with values", "must be a list", "must be a date like 2026-01-31"
# By pydantic's name of the problem; the names in braces are those of its context.
_SENTENCES = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing"), _NUMBER),
    **dict.fromkeys(("string_type", "string_unicode"), _TEXT),
    **dict.fromkeys(("bool_type", "bool_parsing"), _SWITCH),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"), _KEYS),
    **dict.fromkeys(("list_type", "tuple_type"), _LIST),
    **dict.fromkeys(("date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact"), _DATE),
    "finite_number": "must be a finite number",
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be below {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "too_short": "has {actual_length} entries, and needs {min_length:d} or more",
    "too_long": "has {actual_length} entries, and may have {max_length:d} at most",
    "string_too_short": "must not be empty",
    "invalid-json-value": "must be a text, a number, true, false, a list, or keys with values",
    "invalid_key": "a key must be a text; quote it",
}
# The forms that the settings ask of texts, in words.
_FORMS = {
    r"^[a-z0-9_]+$": "may hold small letters, digits and underscores only",
    r"^[a-z0-9_.]+$": "may hold small letters, digits, dots and underscores only",
    r"^https?://\S+$": "must be an address that starts with http:// or https://",
    r"^[0-9a-f]+$": "may hold the hex digits 0 to 9 and a to f only",
}
_LONGEST = 80  # characters of a wrong value that are repeated


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return what validates a kind of settings; created once per process."""
    return TypeAdapter(kind)


@cache
def _schema(kind: Any) -> dict[str, Any]:
    return adapter(kind).json_schema()


def first_problem(error: ValidationError, kind: Any) -> str:
    """Say the first problem in words; unknown keys and kinds get the nearest known one."""
    # A misspelt key also leaves its right form missing: say the misspelling, it explains both.
    problem = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    location = [str(part) for part in problem["loc"] if part != "[key]"]
    keys, _ = _walk(kind, location)
    key = ".".join(keys)
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key!r}; {nearest(location[-1], _walk(kind, location[:-1])[1])}"
    if problem["type"] == "union_tag_invalid":
        tag, known = problem["ctx"]["tag"], re.findall(r"'([^']*)'", problem["ctx"]["expected_tags"])
        name = problem["ctx"]["discriminator"].strip("'")
        if not key:  # the kind of the file itself, which a plug-in may bring
            return f"unknown {name} {tag!r}; {nearest(tag, known)} ({HINT})"
        return f"{key}: unknown {name} {tag!r}; {nearest(tag, known)}"
    if problem["type"] == "union_tag_not_found":
        return f"the key {problem['ctx']['discriminator']} is missing"
    if problem["type"] == "missing":
        return f"the key {key!r} is missing"
    return f"{key}: {_sentence(problem)}" if key else _sentence(problem)


def _sentence(problem: Any) -> str:
    """Return what must hold for a value, and the value itself where it is short enough to be of help."""
    name, context, value = problem["type"], problem.get("ctx", {}), problem["input"]
    if name == "literal_error":
        names = re.findall(r"'([^']*)'", context["expected"])
        return f"there is no {value!r:.{_LONGEST}}; {nearest(str(value), names)}"
    if name == "string_pattern_mismatch":
        what = _FORMS.get(context["pattern"], f"must have the form {context['pattern']}")
    elif name in _SENTENCES:
        what = _SENTENCES[name].format(**context)
    else:
        what = problem["msg"].removeprefix("Value error, ")
    shown = repr(value)
    helps = name != "value_error" or not isinstance(value, dict | list)
    return f"{what} (got {shown})" if helps and len(shown) <= _LONGEST else what


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
            child = node.get("properties", {}).get(part) or node.get("items") or _values(node)
            node = _resolved(child, definitions)
        known = set(node.get("properties", {})) or known
    return keys, sorted(known)


def _values(node: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the values of a mapping with keys of the user's own."""
    return node.get("additionalProperties") or next(iter(node.get("patternProperties", {}).values()), {})


def _resolved(child: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that a value may be; a union by kind stays whole, for its tag comes next."""
    if "discriminator" in child:
        return child
    options = [child, *child.get("anyOf", []), *child.get("oneOf", []), child.get("items", {})]
    names = [option["$ref"].rsplit("/", 1)[-1] for option in options if "$ref" in option]
    return definitions[names[0]] if names else child
