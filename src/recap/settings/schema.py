"""JSON schemas of the files in ``params/``, for editors; ``recap.settings`` is the only description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from recap.core.files import write_text
from recap.settings import SECTIONS, PaperProfile, Profile, TableFile, Titles
from recap.settings.table_parts import TableOfParts

_BASE = {
    "type": "string",
    "description": "name of another file of this section: as that one, except for the keys here",
}


def schemas() -> dict[str, str]:
    """Return the text of every schema file by its name: profiles, titles, and each section of ``params/``."""
    kinds = {
        "profile": (Profile | PaperProfile, False),
        "titles": (Titles, False),
        **{name: (kind, True) for name, kind in SECTIONS.items()},
        "tables": (TableFile | TableOfParts, True),
    }
    made = {name: _schema(kind, name, variant) for name, (kind, variant) in kinds.items()}
    return {f"{name}.schema.json": json.dumps(each, indent=2, sort_keys=True) + "\n" for name, each in made.items()}


def write_schemas(out: Path) -> list[Path]:
    """Write every schema into the folder ``out`` and return the paths."""
    paths = []
    for name, text in schemas().items():
        write_text(out / name, text)
        paths.append(out / name)
    return paths


def _schema(kind: Any, name: str, variant: bool) -> dict[str, Any]:
    """Return the schema of one kind of file; where ``base`` is allowed, a file that has it needs no other key."""
    whole = TypeAdapter(kind).json_schema(ref_template="#/$defs/{model}")
    definitions = whole.pop("$defs", {})
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"recap params: {name}"}
    if not variant:
        return {**whole, **head, "$defs": definitions}
    changes = {f"{key}Changes": _loosened(value) for key, value in definitions.items()}
    roots = [
        {**root, "properties": {**root["properties"], "base": _BASE}} for root in _roots(_loosened(whole), changes)
    ]
    return {
        **head,
        "type": "object",
        "if": {"required": ["base"]},
        "then": {"anyOf": roots},
        "else": whole,
        "$defs": {**definitions, **changes},
    }


def _loosened(node: Any) -> Any:
    """Return a schema in which every key may be left out, and references go to the loosened definitions."""
    if isinstance(node, list):
        return [_loosened(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: _loosened(value) for key, value in node.items() if key not in ("required", "discriminator")}
    if "oneOf" in kept:
        # Without its required keys a change fits several kinds at once.
        kept["anyOf"] = kept.pop("oneOf")
    if "$ref" in node:
        kept["$ref"] = f"{node['$ref']}Changes"
    return kept


def _roots(node: dict[str, Any], definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects that a file may be: the schema itself, or the kinds it chooses from."""
    if "anyOf" in node:
        return [root for option in node["anyOf"] for root in _roots(option, definitions)]
    return [definitions[node["$ref"].rsplit("/", 1)[-1]]] if "$ref" in node else [node]
