"""Writes the pages of the reference: settings from pydantic classes,
commands from argparse, the API for autodoc."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

import recap
from recap.cli import build_parser
from recap.cli.commands import Parser
from recap.settings import SECTIONS, PaperProfile, Profile, TableFile, Titles
from recap.settings.tables import TableOfParts

FILES = {
    "profile": Profile | PaperProfile,
    "titles": Titles,
    **SECTIONS,
    "tables": TableFile | TableOfParts,
}
FORMULA = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def write_reference(out: Path) -> None:
    """Write all generated pages into the folder ``out`` and remove others.

    Sphinx reuses equal pages.
    """
    pages = {"commands": commands_page()}
    pages |= {f"settings/{name}": settings_page(name, kind) for name, kind in FILES.items()}
    pages |= {f"api/{name}": api_page(name, modules) for name, modules in packages().items()}
    files = {out / f"{name}.md": text for name, text in pages.items()}
    for old in set(out.rglob("*.md")) - files.keys():
        old.unlink()
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def commands_page() -> str:
    """Return the help of every command, as `--help` prints it."""
    os.environ["COLUMNS"] = "100"  # argparse wraps at the width of the terminal
    parts = [
        "# Commands\n\nThis page has the help text of every command, as `recap COMMAND --help` "
        "prints it.\n"
    ]
    for depth, parser in _commands(build_parser(), depth=2):
        parts.append(
            f"{'#' * depth} {parser.prog}\n\n```text\n{parser.format_help().rstrip()}\n```\n"
        )
    return "\n".join(parts)


def _commands(parser: Parser, *, depth: int) -> Iterator[tuple[int, Parser]]:
    yield depth, parser
    for below in parser.commands.values():
        yield from _commands(below, depth=min(depth + 1, 4))


def settings_page(name: str, kind: Any) -> str:
    """Return one kind of parameter file: a table of keys for each class that may be in it."""
    schema = TypeAdapter(kind).json_schema()
    classes = schema.pop("$defs", {})
    if "properties" in schema:
        classes = {schema["title"]: schema, **classes}
    place = {
        "profile": "`params/*.yaml`, `params/<paper>/profile.yaml`",
        "titles": "`params/titles.yaml`",
    }
    where = place.get(name, f"`params/{name}/` and `params/<paper>/{name}/`")
    head = f"# Settings: {name}\n\nThe keys of the files in {where}. An unknown key is an error.\n"
    return "\n".join([head, *(_class(title, each) for title, each in classes.items())])


def _class(title: str, schema: dict[str, Any]) -> str:
    lines = [f"## {title}\n", schema.get("description", ""), ""]
    if values := schema.get("enum"):
        lines.append(f"One of {', '.join(f'`{value}`' for value in values)}.\n")
    if properties := schema.get("properties"):
        required = schema.get("required", ())
        lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        lines += [_key(key, each, required=key in required) for key, each in properties.items()]
    return "\n".join([*lines, ""])


def _key(key: str, schema: dict[str, Any], *, required: bool) -> str:
    default = "required" if required else f"`{schema['default']}`" if "default" in schema else ""
    cells = (f"`{key}`", _type(schema), default, schema.get("description", ""))
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"


def _type(schema: dict[str, Any]) -> str:
    """Return the type of a value in words."""
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[several]))
    if "$ref" in schema:
        title = schema["$ref"].rpartition("/")[2]
        return f"[{title}](#{title.lower()})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    name = schema.get("type", "any")
    if name == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if name == "object":
        values = schema.get("additionalProperties")
        return f"mapping to {_type(values)}" if isinstance(values, dict) else "mapping"
    bounds = [f"{sign} {schema[key]}" for key, sign in FORMULA.items() if key in schema]
    return " ".join([name, *bounds])


def packages() -> dict[str, list[str]]:
    """Return the modules of each package of recap; the command line has a page of its own."""
    found: dict[str, list[str]] = {"recap": ["recap"]}
    for module in pkgutil.walk_packages(recap.__path__, "recap."):
        package = module.name.split(".")[1]
        if package not in ("cli", "__main__"):
            found.setdefault(package, []).append(module.name)
    return found


def api_page(name: str, modules: list[str]) -> str:
    """Return the page of one package, which autodoc fills."""
    parts = [f"# {'recap' if name == 'recap' else f'recap.{name}'}\n"]
    for module in modules:
        if len(modules) > 1:
            parts.append(f"## {module}\n")
        parts.append(f"```{{eval-rst}}\n.. automodule:: {module}\n```\n")
    return "\n".join(parts)
